// What opens the hosts that are other machines, as far as that is decided for all of them at once:
// srun within a Slurm allocation, or ssh, or a command of the user's; and whether what the list of
// hosts says of logins fits it.
#pragma once

#include "cli/plan/launch_plan.h"

namespace hvdrun {

// Fills in `ssh` of a plan that has its hosts, and the logins that a command has places for. Throws
// UsageError.
void plan_opening(const Options& options, const Surroundings& here, LaunchPlan& plan);

}  // namespace hvdrun
