// A job from its first start to its last: with --max-restarts one that has failed is started again.
#pragma once

#include <optional>
#include <string>

#include "cli/plan/launch_plan.h"
#include "cli/run/restart_record.h"

namespace hvdrun {

// The plan of a job that starts again, as the options say it today. Throws UsageError or HostError.
LaunchPlan plan_of_restart(const Options& options, const Surroundings& here,
                           const RestartRecord& record);

// Says why a start after that of the record is impossible; the exit code, which is that of the last
// failure, or of --timeout where that is over.
int not_started_again(const RestartRecord& record, const Options& options, const std::string& why);

// Runs the job once, and becomes another hvdrun where it is to start again (restart_record.h).
// Returns the exit code of hvdrun. The process must have one thread and no other children.
int run_job(LaunchPlan plan, const std::optional<RestartRecord>& record);

}  // namespace hvdrun
