// The GPUs that a job may use on a host, where Slurm says it: in variables that it sets for each
// step, with other values on each host. Those of hvdrun's own host must not go along to the others.
// Sans-I/O.
#pragma once

#include <string_view>

#include "common/base/environment.h"

namespace hvdrun {

// For hvdrun, whose steps run on all hosts: takes out of the job's environment what is there only
// because Slurm has set it for hvdrun itself (`own`). What the user has set otherwise stays.
void leave_devices_to_slurm(Environment& job, const Environment& own);

// For the agent of a host: within a Slurm job, what Slurm has set for this host (`own`) and the
// job's environment lacks.
void add_devices_of_slurm(Environment& job, const Environment& own);

// For who asks before the job runs: as much of another host's `own` as hvdrun's tells of it, each
// device variable with `unknown` as its value.
Environment slurm_devices_elsewhere(const Environment& own, std::string_view unknown);

}  // namespace hvdrun
