// The choice of what opens the hosts that are other machines, as far as it is made for all at once:
// srun within a Slurm allocation, or ssh, or a command of the user's. Besides, the check that the
// list of hosts says of logins what fits it. A host's own choice of ssh is
// cli/openers/ssh/ssh_choice.h.
#pragma once

#include "cli/plan/launch_plan.h"

namespace hvdrun {

// Fills in `ssh` of a plan that has its hosts, and the logins that a command has places for. Throws
// UsageError.
void plan_opening(const Options& options, const Surroundings& here, LaunchPlan& plan);

}  // namespace hvdrun
