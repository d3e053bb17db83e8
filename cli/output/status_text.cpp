#include "cli/output/status_text.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/printable.h"
#include "common/process/process_words.h"

namespace hvdrun {
namespace {

// A slot's number is its rank in the first epoch.
std::string name_of(const RankStatus& rank) {
  const std::string slot = "slot " + std::to_string(rank.probe.rank);
  if (!rank.takes_part) return slot + " (no rank in this epoch)";
  return "rank " + std::to_string(rank.rank) +
         (rank.rank == rank.probe.rank ? "" : " (" + slot + ")");
}

std::string rank_line(const RankStatus& rank, const std::vector<std::string>& hosts) {
  const RankProbe& probe = rank.probe;
  std::string line = "  " + name_of(rank) + " on " +
                     (rank.host < hosts.size() ? hosts[rank.host] : "?") + ": " + rank.state;
  if (rank.state == "exited" || rank.state == "assigned") return line;
  if (probe.pid != 0) line += ", pid " + std::to_string(probe.pid);
  if (probe.state.empty()) return line + ", its host has not answered";
  line += std::string(" ") + process_word(probe.state);
  if (!probe.wait_channel.empty()) line += " in " + probe.wait_channel;
  if (!probe.system_call.empty()) line += ", system call " + printable(probe.system_call);
  line +=
      ", " + age_text(probe.cpu_ms) + " of CPU, " + std::to_string(probe.rss_kib / 1024) + " MiB";
  return line;
}

bool shows_stack(const RankStatus& rank) {
  return rank.state != "exited" && rank.state != "assigned" && !rank.probe.stack.empty() &&
         rank.probe.stack != kHiddenStack;
}

}  // namespace

std::string age_text(std::uint64_t ms) {
  const std::uint64_t s = ms / 1000;
  if (s < 10) return std::to_string(ms / 1000) + "." + std::to_string(ms / 100 % 10) + " s";
  if (s < 60) return std::to_string(s) + " s";
  if (s < 3600) return std::to_string(s / 60) + " min " + std::to_string(s % 60) + " s";
  return std::to_string(s / 3600) + " h " + std::to_string(s / 60 % 60) + " min";
}

std::vector<std::string> describe_status(
    const JobStatus& status, const std::function<std::string(std::uint32_t)>& last_line) {
  std::string program;
  for (const std::string& word : status.argv) program += (program.empty() ? "" : " ") + word;
  std::vector<std::string> lines{"job " + status.job_id.substr(0, 8) + " " + status.state +
                                 " since " + age_text(status.age_ms) + ", " +
                                 std::to_string(status.size) + " ranks of " + program};
  for (const RankStatus& rank : status.ranks) {
    std::string line = rank_line(rank, status.hosts);
    if (!rank.trouble.empty()) line += ", failed: " + rank.trouble;
    const std::string last = last_line ? last_line(rank.probe.rank) : "";
    if (!last.empty()) line += ", last line: " + last;
    lines.push_back(std::move(line));
    if (shows_stack(rank))
      lines.push_back("      kernel stack: " +
                      printable(rank.probe.stack, limits::kMaxKernelStack));
  }
  if (status.ranks.size() < status.size)
    lines.push_back("  and " + std::to_string(status.size - status.ranks.size()) + " more");
  return lines;
}

}  // namespace hvdrun
