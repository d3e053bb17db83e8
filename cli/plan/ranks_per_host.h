// -N and its like: as many ranks on each host, whatever slots it has.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/hosts/host_list.h"
#include "cli/plan/launch_plan.h"

namespace hvdrun {

// A host whose slots the list does not say has as many as are asked for.
void count_uncounted(const Options& options, std::vector<HostEntry>& hosts);

// None of the plan's hosts gets more; one that has fewer slots is an error without --oversubscribe.
// A host with 0 slots stays without ranks. `given`: the list of hosts, for messages. Throws
// UsageError.
void limit_ranks_per_host(const Options& options, const std::string& given,
                          std::vector<HostSlots>& hosts, const LaunchPlan& plan);

// The words for it when `np` ranks have no place on hosts that have `places` together; empty:
// nothing of -N.
std::string too_many_for_hosts(const Options& options, std::uint64_t np, std::uint64_t places);

}  // namespace hvdrun
