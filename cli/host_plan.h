// The hosts that the options name, and which of them are this machine.
#pragma once

#include "cli/launch_plan.h"

namespace hvdrun {

// Fills in hosts, logins, remote, notes and warnings of the plan. All names of this machine become
// one host, in the place and under the name of the first. Throws UsageError.
void plan_hosts(const Options& options, const Surroundings& here, LaunchPlan& plan);

}  // namespace hvdrun
