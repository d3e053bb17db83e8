// hvdrun ps and hvdrun status [JOB]: what runs of this user's jobs on this machine.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// One line for each job. Returns an exit code.
int run_ps();

// Where each rank of the job stands. `job`: the beginning of its id; empty when there is only one.
// Throws UsageError when that names no job, or more than one.
int run_status(const std::string& job);

}  // namespace hvdrun
