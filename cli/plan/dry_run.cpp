#include "cli/plan/dry_run.h"

#include <algorithm>

#include "cli/text/json_text.h"
#include "common/base/launch_record.h"
#include "common/host/rank_environment.h"
#include "common/host/slurm_devices.h"
#include "common/host/topology.h"

namespace hvdrun {
namespace {

constexpr std::string_view kAtStart = "(at start)";

// A rank's value is known only once the job runs: nobody has given another one, and the table says
// so.
bool known_at_start_only(std::string_view name, const Environment& given, bool several_hosts) {
  const RankVariable* const row = find_rank_variable(name);
  if (row == nullptr || row->value == nullptr) return name == kLaunchRecord;
  const bool stays =
      row->rule == RankVariable::Rule::users || row->rule == RankVariable::Rule::unless_given;
  if (stays && find_variable(given, name) != nullptr) return false;
  return row->known == RankVariable::Known::at_start ||
         (row->known == RankVariable::Known::alone && several_hosts);
}

// The environment of a host's agent, as far as it tells of Slurm's devices there.
Environment surroundings_of(std::uint32_t host, const LaunchPlan& plan, const Environment& own) {
  if (!plan.remote[host]) return own;
  return plan.ssh.carrier == HostCarrier::srun ? slurm_devices_elsewhere(own, kAtStart)
                                               : Environment{};
}

// The environment of a rank beyond hvdrun's own, in the order of the ranks' environment.
Environment additions(const LaunchPlan& plan, const Environment& own, const RankPlace& place) {
  const JobSpec& spec = plan.spec;
  WorkerPlace worker;
  static_cast<RankPlace&>(worker) = place;
  worker.host_name = spec.ranks.host_name(place.rank);
  worker.epoch = 1;
  worker.node_rank = spec.ranks.node_rank(place.host);
  worker.node_count = static_cast<std::uint32_t>(spec.ranks.hosts_used().size());
  const bool several = worker.node_count > 1;
  worker.master_addr = several ? kAtStart : "127.0.0.1";
  if (several) worker.host_address = kAtStart;
  worker.interface = several ? std::string(kAtStart) : "lo";
  worker.compat = spec.env_compat;
  if (!plan.sync.folder.empty())
    worker.sync_folder = plan.remote[place.host] ? std::string(kAtStart) : plan.sync.folder;
  const RankTable& seen = spec.seen_by_horovod();
  worker.horovod = {static_cast<std::uint16_t>(spec.env_compat.horovod ? 1 : 0),
                    seen.host_name(place.rank), seen[place.rank]};
  const Environment of_host =
      place.host < spec.host_env.size() ? spec.host_env[place.host] : Environment{};
  Environment result;
  for (std::string& entry :
       worker_environment(spec.env, worker, of_host, surroundings_of(place.host, plan, own))) {
    const auto equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    const char* const mine = find_variable(own, name);
    if (mine != nullptr && entry.compare(equals + 1, std::string::npos, mine) == 0) continue;
    if (known_at_start_only(name, spec.env, several)) entry = name + "=" + std::string(kAtStart);
    result.push_back(std::move(entry));
  }
  return result;
}

// As a shell would take it.
std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,+@%^";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string shell_line(const std::vector<std::string>& argv) {
  std::string text;
  for (const std::string& word : argv) text += " " + shell_quoted(word);
  return text;
}

std::string json_list(const std::vector<std::string>& words) {
  std::string text = "[";
  for (const std::string& word : words) text += (text.size() > 1 ? "," : "") + json_quoted(word);
  return text + "]";
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

}  // namespace

std::string describe_plan(const LaunchPlan& plan, const Environment& own) {
  const JobSpec& spec = plan.spec;
  const std::size_t hosts = spec.ranks.hosts_used().size();
  std::string text = std::to_string(spec.np()) + (spec.np() == 1 ? " rank on " : " ranks on ") +
                     std::to_string(hosts) + (hosts == 1 ? " host" : " hosts") + "\n\n";
  text += "  rank  local  cross  host\n";
  for (const RankPlace& place : spec.ranks.places())
    text += "  " + padded(std::to_string(place.rank), 6) +
            padded(std::to_string(place.local_rank) + "/" + std::to_string(place.local_size), 7) +
            padded(std::to_string(place.cross_rank) + "/" + std::to_string(place.cross_size), 7) +
            spec.ranks.host_name(place.rank) + "\n";
  if (spec.min_np > 0)
    text += "\nelastic: goes on while " + std::to_string(spec.min_np) + " of " +
            std::to_string(spec.np()) + " are left, once all are in hvd::elastic::run; waits " +
            std::to_string(spec.elastic_timeout.count() / 1000) + " s for lost ones\n";
  if (plan.restarts.most > 0)
    text += "\nrestarts: " + std::to_string(plan.restarts.most) + " at most, when it fails\n";
  text += "\ncommand:" + shell_line(spec.argv);
  for (const ProgramPart& part : spec.programs)
    text += "\n  from rank " + std::to_string(part.first_rank) + " on:" + shell_line(part.argv);
  text += "\nfolder:  " + spec.cwd + "\nenvironment of rank 0, besides hvdrun's own:\n";
  for (const std::string& entry : additions(plan, own, spec.ranks[0])) {
    const auto equals = entry.find('=');
    const std::string value = entry.substr(equals + 1);
    text += "  " + entry.substr(0, equals + 1) +
            (value == kAtStart ? value
             : value.empty()   ? ""
                               : shell_quoted(value)) +
            "\n";
  }
  return text;
}

std::string plan_as_json(const LaunchPlan& plan, const Environment& own) {
  const JobSpec& spec = plan.spec;
  std::string text = "{\"np\":" + std::to_string(spec.np());
  if (spec.min_np > 0)
    text += ",\"min_np\":" + std::to_string(spec.min_np) +
            ",\"elastic_timeout_ms\":" + std::to_string(spec.elastic_timeout.count());
  if (plan.restarts.most > 0) text += ",\"max_restarts\":" + std::to_string(plan.restarts.most);
  text += ",\"hosts\":[";
  for (const HostSlots& host : spec.hosts())
    text += (text.back() == '[' ? "" : ",") + ("{\"name\":" + json_quoted(host.name)) +
            ",\"slots\":" + std::to_string(host.slots) + "}";
  text += "],\"ranks\":[";
  for (const RankPlace& place : spec.ranks.places()) {
    text += (text.back() == '[' ? "" : ",") + ("{\"rank\":" + std::to_string(place.rank)) +
            ",\"host\":" + json_quoted(spec.ranks.host_name(place.rank)) +
            ",\"local_rank\":" + std::to_string(place.local_rank) +
            ",\"local_size\":" + std::to_string(place.local_size) +
            ",\"cross_rank\":" + std::to_string(place.cross_rank) +
            ",\"cross_size\":" + std::to_string(place.cross_size) + ",\"environment\":{";
    for (const std::string& entry : additions(plan, own, place)) {
      const auto equals = entry.find('=');
      text += (text.back() == '{' ? "" : ",") + json_quoted(entry.substr(0, equals)) + ":" +
              json_quoted(entry.substr(equals + 1));
    }
    text += "}}";
  }
  text += "],\"folder\":" + json_quoted(spec.cwd) +
          ",\"programs\":[{\"first_rank\":0,\"command\":" + json_list(spec.argv) + "}";
  for (const ProgramPart& part : spec.programs)
    text += ",{\"first_rank\":" + std::to_string(part.first_rank) +
            ",\"command\":" + json_list(part.argv) + "}";
  return text + "]}\n";
}

}  // namespace hvdrun
