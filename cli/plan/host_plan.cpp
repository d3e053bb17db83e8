#include "cli/plan/host_plan.h"

#include <optional>
#include <utility>

#include "cli/hosts/host_list.h"
#include "cli/hosts/slurm_hosts.h"
#include "cli/hosts/this_machine.h"
#include "cli/plan/first_hosts.h"
#include "cli/plan/ranks_per_host.h"
#include "cli/text/text_file.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

// So many slots written as host:N were meant to be a port.
constexpr std::uint32_t kLooksLikePort = 1024;

bool looks_like_host(const std::string& word) {
  const auto colon = word.rfind(':');
  return colon != std::string::npos && colon > 0 && colon + 1 < word.size() &&
         word.find_first_not_of("0123456789", colon + 1) == std::string::npos &&
         word.find('/') == std::string::npos;
}

// The message, and under it a caret where the item stands, when the line is short enough for it.
UsageError hosts_error(const Options& options, const HostListProblem& problem) {
  constexpr std::size_t kMaxShown = 60;
  constexpr std::string_view kPrefix = "hvdrun: ";
  const std::string& list = *options.hosts;
  if (list.empty() || list.size() > kMaxShown || printable(list) != list)
    return UsageError(options.hosts_where + ": " + problem.text);
  const std::string left = options.hosts_where + " " + list.substr(0, problem.at);
  return UsageError(options.hosts_where + " " + list + ": " + problem.text + "\n" +
                    std::string(kPrefix.size() + left.size(), ' ') + "^" +
                    std::string(problem.size > 0 ? problem.size - 1 : 0, '~'));
}

std::vector<HostEntry> read_hosts(const Options& options, LaunchPlan& plan,
                                  const Surroundings& here) {
  HostListProblem problem;
  if (options.hosts) {
    auto hosts = parse_host_list(*options.hosts, problem);
    if (!hosts) throw hosts_error(options, problem);
    if (!options.command.empty() && looks_like_host(options.command.front())) {
      const std::string word = printable(options.command.front());
      const std::string given = options.hosts_where + " " + printable(*options.hosts);
      throw UsageError(given + " " + word + ": is '" + word +
                       "' a host? Separate hosts by commas only: " + given + "," + word);
    }
    for (const HostEntry& host : *hosts)
      if (host.slots >= kLooksLikePort && host.login.port == 0 && host.mentions == 1)
        plan.warnings.push_back(options.hosts_where + " gives " + host.name + " " +
                                std::to_string(host.slots) +
                                " slots; a port stands before the slots, as in " + host.name + ":" +
                                std::to_string(host.slots) + ":4");
    return std::move(*hosts);
  }
  if (options.discovery_script) return first_hosts(options, plan.source, here);
  const std::string& path = *options.hostfile;
  auto hosts = parse_hostfile(read_text_file(path, options.hosts_where), problem);
  if (!hosts)
    throw UsageError(printable(path) + ":" + std::to_string(problem.line) + ": " + problem.text);
  if (hosts->empty())
    throw UsageError(printable(path) +
                     ": no host in this file; write one a line, as in 'gpu1 slots=4'");
  return std::move(*hosts);
}

// A host for another user, or with another port, is not this process's machine, whatever its name
// says: a container with an sshd of its own, another account.
bool must_be_ssh(const HostLogin& login, const Options& options, const Surroundings& here) {
  if (login.port != 0 && login.port != options.ssh.port.value_or(kSshPort)) return true;
  return !login.user.empty() && !(here.user && login.user == here.user());
}

}  // namespace

std::vector<bool> find_this_machine(const std::vector<HostEntry>& hosts, const Options& options,
                                    const Surroundings& here) {
  std::vector<bool> found(hosts.size(), false);
  const OwnNames own(here.hostname);
  std::vector<std::size_t> unknown;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (must_be_ssh(hosts[i].login, options, here)) continue;
    switch (own.find(hosts[i].name)) {
      case KnownName::here:
        found[i] = true;
        break;
      case KnownName::elsewhere:
        break;
      case KnownName::to_look_up:
        unknown.push_back(i);
        names.push_back(hosts[i].name);
    }
  }
  if (names.empty() || !here.look_up) return found;
  const std::vector<bool> answers = here.look_up(names);
  for (std::size_t i = 0; i < unknown.size(); ++i) found[unknown[i]] = answers[i];
  return found;
}

Options with_allocation(Options options, const Surroundings& here) {
  if (options.hosts || options.hostfile || options.discovery_script || options.every_host_local)
    return options;
  std::string problem;
  const auto components = slurm_components(here.env, problem);
  if (components && components->empty()) return options;
  const auto list = components ? slurm_host_list(*components, problem) : std::nullopt;
  HostListProblem fault;
  const auto hosts = list ? parse_host_list(*list, fault) : std::nullopt;
  if (!hosts)
    throw UsageError((problem.empty() ? "the Slurm allocation: " + fault.text : problem) +
                     "; name the hosts with -H");
  if (hosts->size() == 1 && find_this_machine(*hosts, options, here).front()) return options;
  options.hosts = list;
  options.hosts_where = slurm_hosts_where(*components);
  if (const char* const job = find_variable(here.env, "SLURM_JOB_ID");
      job != nullptr && components->size() == 1)
    options.allocation = job;
  return options;
}

std::vector<std::vector<HostSlots>> plan_hosts(const Options& options, const Surroundings& here,
                                               std::vector<HostSlots>& hosts, LaunchPlan& plan) {
  plan.source = source_of(options);
  std::vector<HostEntry> entries = read_hosts(options, plan, here);
  std::erase_if(entries,
                [&](const HostEntry& entry) { return options.without_hosts.contains(entry.name); });
  if (entries.empty() && !options.without_hosts.empty())
    throw UsageError("no host of the job is left");
  plan.entries = entries;
  count_uncounted(options, entries);
  const std::vector<bool> is_here = options.every_host_local
                                        ? std::vector<bool>(entries.size(), false)
                                        : find_this_machine(entries, options, here);
  std::vector<std::vector<HostSlots>> names;
  std::optional<std::size_t> first_here;
  std::string own_names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const HostEntry& entry = entries[i];
    if (entry.mentions > 1)
      plan.notes.push_back(entry.name + " stands " + std::to_string(entry.mentions) +
                           " times in the list: one host with " + std::to_string(entry.slots) +
                           " slots");
    if (is_here[i]) own_names += (own_names.empty() ? "" : ", ") + entry.name;
    plan.entry_hosts.push_back(
        static_cast<std::uint32_t>(is_here[i] && first_here ? *first_here : hosts.size()));
    if (is_here[i] && first_here) {
      hosts[*first_here].slots += entry.slots;
      names[*first_here].push_back({entry.name, entry.slots});
      continue;
    }
    if (is_here[i]) first_here = hosts.size();
    hosts.push_back({entry.name, entry.slots});
    names.push_back({hosts.back()});
    plan.remote.push_back(!is_here[i] && !options.every_host_local);
    plan.logins.push_back(is_here[i] ? HostLogin{} : entry.login);
  }
  if (first_here && own_names != "localhost")
    plan.notes.push_back(own_names + ": this machine, with " +
                         std::to_string(hosts[*first_here].slots) + " slots");
  return names;
}

}  // namespace hvdrun
