#include "cli/launch_plan.h"

#include <algorithm>
#include <numeric>
#include <signal.h>

#include "common/host_list.h"
#include "common/random.h"

namespace hvdrun {
namespace {

bool is_this_machine(const std::string& name, const std::string& hostname) {
  return name == "localhost" || name == hostname || name.starts_with("127.");
}

// All names of this machine are one host, under the first of them.
std::vector<HostSlots> check_hosts(std::vector<HostSlots> hosts, const std::string& hostname) {
  std::vector<HostSlots> merged;
  for (HostSlots& host : hosts) {
    if (!is_this_machine(host.name, hostname))
      throw HostError("host '" + host.name +
                      "' is not this machine, and this version starts ranks on this machine "
                      "only; write -H localhost:" +
                      std::to_string(std::max(1U, host.slots)));
    if (merged.empty()) {
      merged.push_back(std::move(host));
    } else {
      merged.front().slots += host.slots;
    }
  }
  return merged;
}

// SIGKILL always comes last; it needs no step.
KillSteps to_steps(const Options& options) {
  if (options.ladder.empty())
    return {{SIGTERM, static_cast<std::uint32_t>(options.grace.count())}};
  KillSteps steps;
  for (const LadderStep& step : options.ladder)
    if (step.signal != SIGKILL)
      steps.push_back({static_cast<std::uint32_t>(step.signal),
                       static_cast<std::uint32_t>(step.wait.count())});
  return steps;
}

void apply_exports(const std::vector<std::string>& exports, Environment& env,
                   std::vector<std::string>& warnings) {
  for (const std::string& item : exports) {
    const auto equals = item.find('=');
    if (equals != std::string::npos) {
      set_variable(env, item.substr(0, equals), item.substr(equals + 1));
    } else if (find_variable(env, item) == nullptr) {
      warnings.push_back("-x " + item + ": no such variable in the environment, ignoring");
    }
  }
}

}  // namespace

LaunchPlan make_plan(const Options& options, const Surroundings& here) {
  if (!options.np && !options.hosts)
    throw UsageError("how many ranks? write -np 4, or -H localhost:4");
  LaunchPlan plan;
  plan.control = options.control;
  plan.verbose = options.verbose;
  plan.output = options.output;
  plan.isolation = options.isolation;
  plan.env_compat = options.env_compat;
  plan.events_file = options.events_file;
  JobSpec& spec = plan.spec;
  if (options.hosts) {
    std::string problem;
    auto hosts = parse_host_list(*options.hosts, problem);
    if (!hosts) throw UsageError("-H: " + problem);
    spec.hosts = options.every_host_local ? std::move(*hosts)
                                          : check_hosts(std::move(*hosts), here.hostname);
  } else {
    spec.hosts = {{"localhost", *options.np}};
  }
  const auto slots =
      std::accumulate(spec.hosts.begin(), spec.hosts.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const HostSlots& host) { return sum + host.slots; });
  if (slots == 0)
    throw UsageError("-H '" + *options.hosts + "' has no slots; write -H localhost:4");
  const std::uint64_t np = options.np ? *options.np : slots;
  if (np > slots)
    throw UsageError("-np " + std::to_string(np) + " asks for more ranks than the " +
                     std::to_string(slots) + " slots of -H '" + *options.hosts +
                     "'; give it more slots, as in -H " + spec.hosts.front().name + ":" +
                     std::to_string(spec.hosts.front().slots + np - slots));
  if (np > limits::kMaxRanks)
    throw UsageError("-H asks for " + std::to_string(np) + " ranks; " +
                     std::to_string(limits::kMaxRanks) + " is the limit");
  spec.np = static_cast<std::uint32_t>(np);
  if (options.output.stdin_to.who == StdinTo::Who::one && options.output.stdin_to.rank >= np)
    throw UsageError("--stdin " + std::to_string(options.output.stdin_to.rank) +
                     ": no such rank; there are " + std::to_string(np) + ", and the first is 0");
  spec.job_id = to_hex(random_bytes(kJobIdBytes));
  spec.argv = options.command;
  spec.cwd = here.cwd;
  spec.env = here.env;
  // A pipe would make Python hold back its output until the end.
  if (find_variable(spec.env, "PYTHONUNBUFFERED") == nullptr)
    set_variable(spec.env, "PYTHONUNBUFFERED", "1");
  for (const auto& [name, value] : options.variables) set_variable(spec.env, name, value);
  apply_exports(options.exports, spec.env, plan.warnings);
  spec.start_timeout = options.start_timeout;
  spec.ladder = to_steps(options);
  if (options.timeout) spec.timeout = *options.timeout;
  // The ranks themselves give up after that time; a moment later it is said here who was missing.
  spec.init_timeout = limits::kInitTimeout + std::chrono::seconds(5);
  spec.events = !options.events_file.empty();
  spec.lease = options.lease;
  return plan;
}

}  // namespace hvdrun
