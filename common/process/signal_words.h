// The numbers of signals for people.
#pragma once

#include <cstdint>
#include <string>

#include <string.h>

namespace hvdrun {

// "SIGKILL"; empty: there is no such signal.
inline std::string signal_name(int signal) {
  const char* const name = signal > 0 ? ::sigabbrev_np(signal) : nullptr;
  return name == nullptr ? std::string() : "SIG" + std::string(name);
}

// "signal 9 (SIGKILL)", or the number alone.
inline std::string signal_text(std::uint32_t signal) {
  const std::string name = signal_name(static_cast<int>(signal));
  return "signal " + std::to_string(signal) + (name.empty() ? "" : " (" + name + ")");
}

}  // namespace hvdrun
