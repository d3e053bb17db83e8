// The hosts that a job begins with, where a source lists them: it is asked until it has enough.
#pragma once

#include <vector>

#include "cli/hosts/host_source.h"
#include "cli/plan/launch_plan.h"

namespace hvdrun {

// None where the hosts are as the options name them. A hostfile is one when --max-np says that
// others may come.
HostSource source_of(const Options& options);

// Waits for as many slots as -np asks for, for --elastic-timeout. What goes wrong meanwhile is told
// once. Throws HostError, UsageError.
std::vector<HostEntry> first_hosts(const Options& options, const HostSource& source,
                                   const Surroundings& here);

}  // namespace hvdrun
