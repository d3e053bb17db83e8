#include "cli/plan/gpu_plan.h"

#include <algorithm>

#include "common/base/printable.h"
#include "common/host/topology.h"
#include "common/host/usable_cores.h"

namespace hvdrun {
namespace {

constexpr const char* kVisible = "CUDA_VISIBLE_DEVICES";

std::string ranks_words(std::size_t ranks) {
  return std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
}

}  // namespace

std::optional<std::uint32_t> slots_of_gpus(const GpuOption& gpus) {
  if (gpus.mode == GpuOption::Mode::none) return usable_cores();
  for (const GpuOption::Host& host : gpus.hosts)
    if (host.name == "localhost") return static_cast<std::uint32_t>(host.count);
  return std::nullopt;
}

void plan_gpus(const GpuOption& gpus, LaunchPlan& plan) {
  JobSpec& spec = plan.spec;
  if (gpus.mode == GpuOption::Mode::automatic) return;
  // An empty list, not an absent one: it hides every GPU.
  if (gpus.mode == GpuOption::Mode::none) return set_variable(spec.env, kVisible, "");
  spec.host_env.resize(spec.hosts().size());
  for (const GpuOption::Host& host : gpus.hosts) {
    bool found = false;
    for (std::uint32_t i = 0; i < spec.hosts().size(); ++i) {
      if (spec.hosts()[i].name != host.name) continue;
      found = true;
      const std::size_t ranks = spec.ranks.on_host(i).size();
      if (ranks > host.count)
        throw UsageError(gpus.where + ": host " + printable(host.name) + " has " +
                         ranks_words(ranks) + " and " + std::to_string(host.count) +
                         (host.count == 1 ? " GPU" : " GPUs") + " (" + host.devices +
                         "); give it more GPUs, or fewer slots, as in -H " +
                         spell_host(host.name, plan.logins[i]) + ":" + std::to_string(host.count));
      set_variable(spec.host_env[i], kVisible, host.devices);
    }
    if (!found) {
      std::string known;
      constexpr std::size_t kShown = 8;
      for (std::size_t i = 0; i < std::min(kShown, spec.hosts().size()); ++i)
        known += (known.empty() ? "" : ", ") + printable(spec.hosts()[i].name);
      if (spec.hosts().size() > kShown) known += ", ...";
      throw UsageError(gpus.where + ": the job has no host '" + printable(host.name) +
                       "'; its hosts are " + known);
    }
  }
}

}  // namespace hvdrun
