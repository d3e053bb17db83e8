#include "cli/plan/ranks_per_host.h"

#include <string>

#include "cli/hosts/host_item.h"

namespace hvdrun {
namespace {

UsageError too_few_slots(const Options& options, std::uint32_t slots, const std::string& host,
                         const std::string& given) {
  return UsageError(options.per_host_where + " asks for more ranks than the " +
                    std::to_string(slots) + (slots == 1 ? " slot of " : " slots of ") + host +
                    " in " + given + "; give it more, as in " + host + ":" +
                    std::to_string(*options.per_host) + ", or --oversubscribe");
}

}  // namespace

void count_uncounted(const Options& options, std::vector<HostEntry>& hosts) {
  if (!options.per_host) return;
  for (HostEntry& host : hosts)
    if (!host.counted) host.slots = *options.per_host;
}

void limit_ranks_per_host(const Options& options, const std::string& given,
                          std::vector<HostSlots>& hosts, const LaunchPlan& plan) {
  if (!options.per_host) return;
  const std::uint32_t ranks = *options.per_host;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    HostSlots& host = hosts[i];
    if (host.slots == 0) continue;
    if (host.slots < ranks && !options.oversubscribe)
      throw too_few_slots(options, host.slots, spell_host(host.name, plan.logins[i]), given);
    host.slots = ranks;
  }
}

std::string too_many_for_hosts(const Options& options, std::uint64_t np, std::uint64_t places) {
  if (!options.per_host || np <= places) return {};
  const std::uint64_t hosts = places / *options.per_host;
  return "-np " + std::to_string(np) + " asks for more ranks than the " + std::to_string(places) +
         " that " + options.per_host_where + " gives " + std::to_string(hosts) +
         (hosts == 1 ? " host" : " hosts") +
         "; leave one of the two out, or name more hosts with -H";
}

}  // namespace hvdrun
