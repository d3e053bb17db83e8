// Looks at programs before ranks start on this machine. A job that cannot work costs one line then,
// and not one failure for each rank. Any doubt counts as fine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "common/base/environment.h"

namespace hvdrun {

struct ProgramProblem {
  int exit_code = 0;
  std::string text;  // one line, for the user
};

// The way in which the programs will run.
struct ProgramUse {
  const Environment& env;
  const std::string& cwd;
  std::uint32_t copies = 1;  // ranks of the whole job
  bool allow_mpi = false;    // programs that wait for MPI are let through
};

// The first problem of the working folder, the programs (argv[0]), their loaders, interpreters and
// shared libraries; or that one waits for MPI: it would run as copies of rank 0 and exit with 0.
// Reads files, so it takes as long as the file system does.
std::optional<ProgramProblem> check_programs(const std::vector<std::string>& programs,
                                             const ProgramUse& use);

// The words for the case that the start of a program has failed with `ec` all the same. `file`:
// what was executed. One line.
std::string start_fault(const std::string& program, const std::string& file,
                        const std::error_code& ec, const ProgramUse& use);

}  // namespace hvdrun
