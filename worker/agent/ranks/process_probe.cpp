#include "worker/agent/ranks/process_probe.h"

#include <array>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

std::optional<std::string> read_proc_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t size = ::read(file.get(), buffer.data(), buffer.size());
  if (size < 0) return std::nullopt;
  return std::string(buffer.data(), static_cast<std::size_t>(size));
}

RankProbe probe_process(std::uint32_t rank, pid_t pid) {
  RankProbe probe;
  probe.rank = rank;
  probe.pid = static_cast<std::uint32_t>(pid);
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::string stat = read_proc_file(folder + "/stat").value_or("");
  const auto name_end = stat.rfind(')');  // a name may hold blanks and parentheses
  if (name_end == std::string::npos) return probe;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  fields >> probe.state;                            // field 3
  for (int i = 4; i <= 13; ++i) fields >> skipped;  // up to cmajflt
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> user >> system;                          // 14, 15
  for (int i = 16; i <= 23; ++i) fields >> skipped;  // up to vsize
  std::uint64_t pages = 0;
  fields >> pages;  // 24
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  probe.cpu_ms = (user + system) * 1000 / (ticks == 0 ? 100 : ticks);
  probe.rss_kib = pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)) / 1024;
  probe.wait_channel = read_proc_file(folder + "/wchan").value_or("");
  if (probe.wait_channel == "0") probe.wait_channel.clear();
  if (probe.wait_channel.size() > limits::kMaxProcessText)
    probe.wait_channel.resize(limits::kMaxProcessText);
  return probe;
}

}  // namespace hvdrun
