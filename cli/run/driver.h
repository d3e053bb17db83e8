// The driver of one start of a job: starts the coordinator, opens the hosts, shows the output and
// returns the verdict.
#pragma once

#include <functional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "cli/plan/launch_plan.h"
#include "cli/text/log.h"
#include "common/wire/messages.h"

namespace hvdrun {

struct AttemptEnd {
  int exit_code = 0;
  bool is_interrupted = false;  // as nobody reads the output any more, or by a signal
  int signal = 0;               // that one
  bool output_lost = false;     // some of it could not be written
  bool all_gone = true;         // no process of the job on this machine has outlived it
  std::vector<pid_t> children;  // below which they are; none: below this process
};

// Runs the job once. `on_failure` is called when it has failed with ranks or hosts, once, before it
// is all told: its line follows the verdict, unless it is empty.
// SIGPIPE must be ignored, and the process must have one thread and no other children.
AttemptEnd run_attempt(LaunchPlan plan,
                       const std::function<std::string(const JobEnded&)>& on_failure, HeldLog& log);

}  // namespace hvdrun
