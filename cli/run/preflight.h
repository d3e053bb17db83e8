// The programs of a job, looked at before anything starts. For hosts that share this machine's
// files; the others look themselves (coordinator/host_checks.h).
#pragma once

#include <optional>

#include "common/process/program_check.h"
#include "coordinator/job_spec.h"

namespace hvdrun {

std::optional<ProgramProblem> preflight(const JobSpec& spec);

}  // namespace hvdrun
