// The driver: starts the coordinator, opens the hosts, shows the output and returns the verdict.
#pragma once

#include "cli/plan/launch_plan.h"

namespace hvdrun {

// Runs the whole job; returns the exit code of hvdrun. The process must have one thread and no
// other children.
int run_job(LaunchPlan plan);

}  // namespace hvdrun
