#include "cli/slurm_hosts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/host_list.h"
#include "common/limits.h"
#include "common/printable.h"

namespace hvdrun {
namespace {

// "4(x3),2" as 4 4 4 2.
bool parse_tasks(std::string_view text, std::vector<std::uint32_t>& tasks) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    std::uint32_t times = 1;
    if (const auto open = part.find("(x"); open != std::string_view::npos) {
      if (!part.ends_with(')') ||
          !parse_host_count(part.substr(open + 2, part.size() - open - 3), times))
        return false;
      part = part.substr(0, open);
    }
    std::uint32_t count = 0;
    if (!parse_host_count(part, count) || count > limits::kMaxSlotsPerHost ||
        times > limits::kMaxHosts - std::min(tasks.size(), limits::kMaxHosts))
      return false;
    tasks.insert(tasks.end(), times, count);
  }
  return true;
}

}  // namespace

std::optional<std::string> slurm_host_list(std::string_view nodes, std::string_view tasks,
                                           std::string& problem) {
  HostListProblem fault;
  const auto hosts = parse_host_list(nodes, fault);
  if (!hosts) {
    problem = "SLURM_JOB_NODELIST: " + fault.text;
    return std::nullopt;
  }
  std::vector<std::uint32_t> counts;
  if (tasks.empty()) {
    counts.assign(hosts->size(), 1);
  } else if (!parse_tasks(tasks, counts)) {
    problem = "SLURM_TASKS_PER_NODE " + quoted_word(tasks) + " is not understood";
    return std::nullopt;
  }
  if (counts.size() != hosts->size()) {
    problem = "SLURM_TASKS_PER_NODE " + quoted_word(tasks) + " is for " +
              std::to_string(counts.size()) + " hosts, SLURM_JOB_NODELIST has " +
              std::to_string(hosts->size());
    return std::nullopt;
  }
  std::string list;
  for (std::size_t i = 0; i < hosts->size(); ++i)
    list += (list.empty() ? "" : ",") + (*hosts)[i].name + ":" + std::to_string(counts[i]);
  return list;
}

}  // namespace hvdrun
