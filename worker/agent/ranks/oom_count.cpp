#include "worker/agent/ranks/oom_count.h"

#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

namespace hvdrun {

std::uint64_t oom_kill_count() {
  std::ifstream file("/proc/vmstat");
  constexpr std::string_view kName = "oom_kill ";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kName)) continue;
    std::uint64_t count = 0;
    std::from_chars(line.data() + kName.size(), line.data() + line.size(), count);
    return count;
  }
  return 0;
}

}  // namespace hvdrun
