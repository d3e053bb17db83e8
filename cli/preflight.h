// Looks at the program before anything is started, so that what cannot work costs one line and not
// one failure for each rank. Any doubt counts as fine. For hosts that share this machine's files.
#pragma once

#include <optional>
#include <string>

#include "coordinator/job.h"

namespace hvdrun {

struct PreflightProblem {
  int exit_code = 0;
  std::string text;  // one line, for the user
};

// The working folder, the program, its shared libraries, and that it does not wait for MPI: such a
// program would run as `np` copies of rank 0 and exit with 0 (`allow_mpi`: it is let through).
std::optional<PreflightProblem> preflight(const JobSpec& spec, bool allow_mpi);

}  // namespace hvdrun
