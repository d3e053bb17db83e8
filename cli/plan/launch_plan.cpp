#include "cli/plan/launch_plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <signal.h>
#include <unistd.h>

#include "cli/options/exports.h"
#include "cli/options/stall_times.h"
#include "cli/output/output_columns.h"
#include "cli/output/output_tag.h"
#include "cli/plan/gpu_plan.h"
#include "cli/plan/horovod_hosts.h"
#include "cli/plan/host_plan.h"
#include "cli/plan/opening_plan.h"
#include "cli/plan/ranks_per_host.h"
#include "cli/plan/sync_plan.h"
#include "cli/plan/working_folder.h"
#include "cli/text/text_file.h"
#include "common/base/launch_record.h"
#include "common/base/printable.h"
#include "common/base/random.h"
#include "common/host/slurm_devices.h"
#include "common/host/usable_cores.h"

namespace hvdrun {
namespace {

// SIGKILL always comes last; it needs no step.
KillSteps to_steps(const Options& options) {
  if (options.ladder.empty()) return {{SIGTERM, static_cast<std::uint32_t>(options.grace.count())}};
  KillSteps steps;
  for (const LadderStep& step : options.ladder)
    if (step.signal != SIGKILL)
      steps.push_back(
          {static_cast<std::uint32_t>(step.signal), static_cast<std::uint32_t>(step.wait.count())});
  return steps;
}

// --oversubscribe: one more rank for each host in turn, until all have a place.
void add_slots(std::vector<HostSlots>& hosts, std::uint64_t missing) {
  const std::uint64_t each = missing / hosts.size();
  const std::uint64_t more = missing % hosts.size();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    hosts[i].slots += static_cast<std::uint32_t>(each + (i < more ? 1 : 0));
}

// The ranks of all parts together; none: as many as there are slots.
std::optional<std::uint64_t> wanted_ranks(const Options& options) {
  if (options.parts.empty()) return options.np;
  if (!options.np)
    throw UsageError("how many ranks has the first program? write -np 1 ./a : -np 3 ./b");
  std::uint64_t np = *options.np;
  for (const OptionsPart& part : options.parts) np += part.np;
  if (np > limits::kMaxRanks)
    throw UsageError("the programs have " + std::to_string(np) + " ranks together; " +
                     std::to_string(limits::kMaxRanks) + " is the limit");
  return np;
}

std::uint32_t place_ranks(const Options& options, std::optional<std::uint64_t> wanted,
                          std::vector<HostSlots>& hosts, const LaunchPlan& plan) {
  const std::string given = options.hosts_where + " " +
                            quoted_word(options.hosts      ? *options.hosts
                                        : options.hostfile ? *options.hostfile
                                                           : options.discovery_script.value_or(""));
  limit_ranks_per_host(options, given, hosts, plan);
  const auto slots =
      std::accumulate(hosts.begin(), hosts.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const HostSlots& host) { return sum + host.slots; });
  if (slots == 0) throw UsageError(given + " has no slots; write -H localhost:4");
  // On hosts that are left a job starts again with the ranks that they have place for.
  const std::uint64_t np = options.without_hosts.empty() ? wanted.value_or(slots)
                                                         : std::min(wanted.value_or(slots), slots);
  if (np > limits::kMaxRanks)
    throw UsageError(given + " asks for " + std::to_string(np) + " ranks; " +
                     std::to_string(limits::kMaxRanks) + " is the limit");
  if (const std::string text = too_many_for_hosts(options, np, slots); !text.empty())
    throw UsageError(text);
  if (np > slots && !options.oversubscribe)
    throw UsageError("-np " + std::to_string(np) + " asks for more ranks than the " +
                     std::to_string(slots) + " slots of " + given + "; give it more, as in " +
                     spell_host(hosts.front().name, plan.logins.front()) + ":" +
                     std::to_string(hosts.front().slots + np - slots) + ", or --oversubscribe");
  if (np > slots) add_slots(hosts, np - slots);
  return static_cast<std::uint32_t>(np);
}

// An outer job's were those of another terminal. Before what the user sets, who can say 0 there.
void tell_columns(std::uint32_t of_terminal, LaunchPlan& plan) {
  constexpr std::string_view kName = "HVD_OUTPUT_COLUMNS";
  Environment& env = plan.spec.env;
  if (of_terminal == 0) return;
  const std::uint32_t columns = columns_behind_tags(of_terminal, plan.output, plan.spec.ranks);
  if (columns > 0) set_variable(env, kName, std::to_string(columns));
}

// Records this job's own settings, besides those of each rank: an hvdrun that a rank starts has
// another network, another timeline, and options of its own. A variable of that name that the user
// has set is the user's.
void begin_record(const Options& options, Environment& env) {
  std::string record;
  for (const std::string& entry : env) {
    const auto equals = std::min(entry.find('='), entry.size() - 1);
    const std::string name = entry.substr(0, equals);
    const std::string value = entry.substr(equals + 1);
    const bool by_option = std::find(options.variables.begin(), options.variables.end(),
                                     std::pair(name, value)) != options.variables.end();
    if (by_option || is_timeline_variable(entry)) add_to_record(record, name, value);
  }
  if (!record.empty()) set_variable(env, kLaunchRecord, record);
}

void check_elastic(const Options& options) {
  if (options.per_host && (options.discovery_script || options.max_np))
    throw UsageError(options.per_host_where +
                     ": hosts that come and go have the slots that are "
                     "listed for them; leave it out");
  if (options.slots_per_host && !options.discovery_script)
    throw UsageError(
        "--slots-per-host is for --host-discovery-script; write the slots behind each "
        "host, as in -H gpu1:4,gpu2:4");
  if (options.min_np || options.discovery_script) {
    if (!options.parts.empty())
      throw UsageError(
          std::string(options.min_np ? "--min-np" : options.hosts_where) +
          ": the programs of a job with several (':') cannot replace each other's ranks; leave it "
          "out, or start one program");
    return;
  }
  for (const auto& [given, name] :
       {std::pair(options.elastic_timeout.has_value(), "--elastic-timeout"),
        std::pair(options.max_np.has_value(), "--max-np"),
        std::pair(options.reset_limit.has_value(), "--reset-limit"),
        std::pair(options.cooldown.has_value(), "--blacklist-cooldown-range")})
    if (given)
      throw UsageError(std::string(name) + ": the job is not elastic; --min-np N makes it so");
}

void plan_elastic(const Options& options, const LaunchPlan& plan, JobSpec& spec) {
  if (!options.min_np && !options.discovery_script) return;
  // As horovodrun: with a script the ranks that were asked for are the least.
  const std::uint32_t least = options.min_np.value_or(options.np.value_or(1));
  if (least > spec.np())
    throw UsageError("--min-np " + std::to_string(least) + ": there are " +
                     std::to_string(spec.np()) + " ranks; give as many at most, or more with -np");
  spec.min_np = least;
  spec.elastic_timeout = options.elastic_timeout.value_or(limits::kElasticTimeout);
  spec.reset_limit = options.reset_limit;
  spec.cooldown = options.cooldown;
  if (plan.source.kind != HostSource::Kind::none || options.max_np)
    spec.max_np = options.max_np.value_or(static_cast<std::uint32_t>(limits::kMaxRanks));
}

// The ranks to begin with: all that there is place for, where --max-np or a script lets the job
// have more than -np.
std::optional<std::uint64_t> ranks_to_begin(const Options& options,
                                            std::optional<std::uint64_t> wanted,
                                            const std::vector<HostSlots>& hosts) {
  if (!options.max_np && !options.discovery_script) return wanted;
  if (options.max_np && wanted && *wanted > *options.max_np)
    throw UsageError("-np " + std::to_string(*wanted) + ": --max-np allows " +
                     std::to_string(*options.max_np) + " ranks");
  if (options.max_np && options.min_np && *options.min_np > *options.max_np)
    throw UsageError("--min-np " + std::to_string(*options.min_np) + ": --max-np allows " +
                     std::to_string(*options.max_np) + " ranks");
  const auto slots =
      std::accumulate(hosts.begin(), hosts.end(), std::uint64_t{0},
                      [](std::uint64_t sum, const HostSlots& host) { return sum + host.slots; });
  const std::uint64_t most = std::min<std::uint64_t>(slots, options.max_np.value_or(slots));
  return std::max(most, wanted.value_or(0));
}

}  // namespace

std::uint32_t count_slots() {
  std::uint32_t gpus = 0;
  while (::access(("/dev/nvidia" + std::to_string(gpus)).c_str(), F_OK) == 0) ++gpus;
  return gpus > 0 ? gpus : usable_cores();
}

bool starts_ranks(const LaunchPlan& plan, bool remote) {
  const auto& hosts = plan.spec.ranks.hosts_used();
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](std::uint32_t host) { return plan.remote[host] == remote; });
}

LaunchPlan make_plan(const Options& asked, const Surroundings& here) {
  const Options options = with_allocation(asked, here);
  LaunchPlan plan;
  plan.control = options.control;
  plan.every_host_local = options.every_host_local;
  plan.verbose = options.verbose;
  plan.output = options.output;
  check_tag(options.output.tag);
  plan.isolation = options.isolation;
  plan.events_file = options.events_file;
  plan.warnings = options.warnings;
  plan.notes = options.notes;
  JobSpec& spec = plan.spec;
  check_elastic(options);
  const auto wanted = wanted_ranks(options);
  if (options.hosts || options.hostfile || options.discovery_script) {
    std::vector<HostSlots> hosts;
    const auto names = plan_hosts(options, here, hosts, plan);
    const std::uint32_t np =
        place_ranks(options, ranks_to_begin(options, wanted, hosts), hosts, plan);
    spec.horovod_ranks = {horovod_hosts(names, hosts, plan.logins), np};
    spec.ranks = {std::move(hosts), np};
  } else {
    const auto slots = [&] {
      if (options.per_host) return *options.per_host;
      return slots_of_gpus(options.gpus).value_or(here.count_slots());
    };
    const std::uint32_t np = wanted ? static_cast<std::uint32_t>(*wanted) : std::max(1U, slots());
    const std::string fault = too_many_for_hosts(options, np, options.per_host.value_or(0));
    if (!fault.empty()) throw UsageError(fault);
    if (np > limits::kMaxSlotsPerHost)
      throw UsageError("-np " + std::to_string(np) + ": one host takes " +
                       std::to_string(limits::kMaxSlotsPerHost) +
                       " ranks at most; name others with -H");
    spec.ranks = {{{"localhost", np}}, np};
    plan.entries = {{"localhost", np}};
    plan.entry_hosts = {0};
  }
  plan.remote.resize(spec.hosts().size(), false);
  plan.logins.resize(spec.hosts().size());
  plan_opening(options, here, plan);
  plan.network = options.network;
  if (options.output.stdin_to.who == StdinTo::Who::one && options.output.stdin_to.rank >= spec.np())
    throw UsageError("--stdin " + std::to_string(options.output.stdin_to.rank) +
                     ": no such rank; there are " + std::to_string(spec.np()) +
                     ", and the first is 0");
  spec.job_id = to_hex(random_bytes(kJobIdBytes));
  spec.argv = options.command;
  for (std::uint32_t first = options.np.value_or(0); const OptionsPart& part : options.parts) {
    spec.programs.push_back({first, part.command});
    first += part.np;
  }
  spec.cwd = folder_of_ranks(here.cwd, options.folder);
  if (!here.plain_cwd.empty()) spec.plain_cwd = folder_of_ranks(here.plain_cwd, options.folder);
  if (spec.plain_cwd == spec.cwd) spec.plain_cwd.clear();
  spec.env = here.env;
  name_folder(spec.env, spec.cwd);
  drop_outer_timeline(spec.env);
  // Before what the user sets for this job, which may have such names.
  drop_stale_variables(spec.env);
  // A pipe would make Python hold back its output until the end.
  if (find_variable(spec.env, "PYTHONUNBUFFERED") == nullptr)
    set_variable(spec.env, "PYTHONUNBUFFERED", "1");
  tell_columns(here.columns, plan);
  for (const std::string& name : options.unset) erase_variable(spec.env, name);
  for (const auto& [name, value] : options.variables) set_variable(spec.env, name, value);
  for (const std::string& path : options.env_files)
    for (const auto& [name, value] : parse_env_file(read_text_file(path, "--env-file"), path))
      set_variable(spec.env, name, value);
  apply_exports(options.exports, here.env, spec.env, plan.warnings);
  if (options.max_restarts > 0) {
    set_variable(spec.env, "HVD_RESTART_COUNT", "0");
    set_variable(spec.env, "HVD_MAX_RESTARTS", std::to_string(options.max_restarts));
  }
  begin_record(options, spec.env);
  plan.timeline = timeline_options(spec.env);
  if (plan.ssh.carrier == HostCarrier::srun) leave_devices_to_slurm(spec.env, here.env);
  plan_gpus(options.gpus, plan);
  spec.env_compat = options.env_compat;
  spec.allow_mpi = options.allow_mpi;
  // Programs on this machine are looked at here (preflight), before any host is opened.
  spec.elsewhere = plan.remote;
  spec.start_timeout = options.start_timeout;
  spec.ladder = to_steps(options);
  if (options.timeout) spec.timeout = *options.timeout;
  const StallTimes stall = stall_times(spec.env);
  // The ranks themselves give up after that time; a moment later it is said here who was missing.
  spec.init_timeout = stall.init + JobSpec::kAfterInitTimeout;
  spec.stall_warning = stall.warning;
  spec.stall_shutdown = stall.shutdown;
  spec.events = !options.events_file.empty();
  plan.restarts.most = options.max_restarts;
  plan.restarts.first_np = spec.np();
  plan_elastic(options, plan, spec);
  plan.sync = plan_sync(options, here, plan);
  plan.find_this_machine = [options, here](const std::vector<HostEntry>& hosts) {
    return options.every_host_local ? std::vector<bool>(hosts.size(), false)
                                    : find_this_machine(hosts, options, here);
  };
  spec.lease = options.lease;
  return plan;
}

}  // namespace hvdrun
