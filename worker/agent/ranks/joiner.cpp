#include "worker/agent/ranks/joiner.h"

#include <algorithm>
#include <sstream>
#include <unistd.h>

#include "common/base/printable.h"
#include "worker/agent/ranks/process_probe.h"

namespace hvdrun {
namespace {

// More generations than any program has; a loop made of reused numbers ends here.
constexpr int kMaxGenerations = 1000;
constexpr std::size_t kMaxCommandLine = 100;

// 0: it is gone, or has none.
pid_t parent_of(pid_t pid) {
  const std::string stat = read_proc_file("/proc/" + std::to_string(pid) + "/stat").value_or("");
  const auto name_end = stat.rfind(')');  // a name may hold blanks and parentheses
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string state;
  pid_t parent = 0;
  fields >> state >> parent;
  return parent;
}

}  // namespace

std::optional<std::uint32_t> rank_of_process(pid_t pid, const StartedRank& started) {
  if (pid <= 0) return std::nullopt;
  pid_t at = pid;
  for (int generation = 0; generation < kMaxGenerations && at > 1; ++generation) {
    if (const auto rank = started(at)) return rank;
    at = parent_of(at);
  }
  const pid_t session = ::getsid(pid);
  return session > 0 ? started(session) : std::nullopt;
}

std::string process_text(pid_t pid) {
  std::string command = read_proc_file("/proc/" + std::to_string(pid) + "/cmdline").value_or("");
  while (!command.empty() && command.back() == '\0') command.pop_back();
  std::replace(command.begin(), command.end(), '\0', ' ');
  return "process " + std::to_string(pid) +
         (command.empty() ? std::string() : " (" + printable(command, kMaxCommandLine) + ")");
}

}  // namespace hvdrun
