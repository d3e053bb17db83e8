// The letter of /proc/PID/stat for people.
#pragma once

#include <string_view>

namespace hvdrun {

// Empty for a letter that says nothing.
inline const char* process_word(std::string_view state) {
  if (state == "R") return "running";
  if (state == "S") return "sleeping";
  if (state == "D") return "in an uninterruptible wait";
  if (state == "T") return "stopped";
  if (state == "t") return "traced";
  if (state == "Z") return "a zombie";
  return "";
}

}  // namespace hvdrun
