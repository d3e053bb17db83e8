#include "cli/hosts/slurm_hosts.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cli/hosts/host_list.h"
#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr const char* kNodeList = "SLURM_JOB_NODELIST";
constexpr const char* kTaskList = "SLURM_TASKS_PER_NODE";
constexpr std::uint32_t kMaxComponents = 128;  // Slurm's own limit

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

// Appends "tux0:4,tux1:4"; false, and what is wrong.
bool add_hosts(const SlurmComponent& component, std::string& list, std::string& problem) {
  HostListProblem fault;
  const auto hosts = parse_host_list(component.nodes, fault);
  if (!hosts) {
    problem = kNodeList + component.suffix + ": " + fault.text;
    return false;
  }
  const std::string tasks = kTaskList + component.suffix + " " + quoted_word(component.tasks);
  std::vector<std::uint32_t> counts;
  if (!component.tasks.empty() && !parse_tasks(component.tasks, counts)) {
    problem = tasks + " is not understood";
    return false;
  }
  const bool counted =
      !counts.empty() && (component.asked || std::any_of(counts.begin(), counts.end(),
                                                         [](auto count) { return count != 1; }));
  if (!counts.empty() && counts.size() != hosts->size()) {
    problem = tasks + " is for " + std::to_string(counts.size()) + " hosts, " + kNodeList +
              component.suffix + " has " + std::to_string(hosts->size());
    return false;
  }
  for (std::size_t i = 0; i < hosts->size(); ++i)
    list += (list.empty() ? "" : ",") + (*hosts)[i].name +
            (counted ? ":" + std::to_string(counts[i]) : "");
  return true;
}

}  // namespace

std::optional<std::vector<SlurmComponent>> slurm_components(const Environment& env,
                                                            std::string& problem) {
  const auto variable = [&env](const std::string& name) {
    const char* const value = find_variable(env, name);
    return std::string(value != nullptr ? value : "");
  };
  const auto component = [&](const std::string& suffix) {
    const bool asked = !variable("SLURM_NTASKS" + suffix).empty() ||
                       !variable("SLURM_NTASKS_PER_NODE" + suffix).empty();
    return SlurmComponent{suffix, variable(kNodeList + suffix), variable(kTaskList + suffix),
                          asked};
  };
  std::vector<SlurmComponent> components;
  // Its name before Slurm 20.02 is the second.
  for (const char* const kind : {"HET", "PACK"}) {
    const std::string name = std::string("SLURM_") + kind + "_SIZE";
    const std::string size = variable(name);
    if (size.empty()) continue;
    std::uint32_t count = 0;
    if (!parse_host_count(size, count) || count == 0 || count > kMaxComponents) {
      problem = name + " " + quoted_word(size) + " is not understood";
      return std::nullopt;
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      components.push_back(component(std::string("_") + kind + "_GROUP_" + std::to_string(i)));
      if (!components.back().nodes.empty()) continue;
      problem.assign(name).append(" says that this Slurm job has ").append(size);
      problem.append(" components, but there is no ").append(kNodeList);
      problem.append(components.back().suffix);
      return std::nullopt;
    }
    return components;
  }
  if (!variable(kNodeList).empty()) components.push_back(component(""));
  return components;
}

std::optional<std::string> slurm_host_list(const std::vector<SlurmComponent>& components,
                                           std::string& problem) {
  std::string list;
  for (const SlurmComponent& component : components)
    if (!add_hosts(component, list, problem)) return std::nullopt;
  return list;
}

std::string slurm_hosts_where(const std::vector<SlurmComponent>& components) {
  const std::string first = kNodeList + components.front().suffix;
  return components.size() == 1 ? first : first + " to " + kNodeList + components.back().suffix;
}

std::map<std::string, std::uint32_t> slurm_nodes(const std::vector<SlurmComponent>& components) {
  std::map<std::string, std::uint32_t> nodes;
  for (std::uint32_t i = 0; i < components.size(); ++i) {
    HostListProblem fault;
    if (const auto hosts = parse_host_list(components[i].nodes, fault))
      for (const HostEntry& host : *hosts) nodes.emplace(host.name, i);
  }
  return nodes;
}

}  // namespace hvdrun
