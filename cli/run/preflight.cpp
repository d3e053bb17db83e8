#include "cli/run/preflight.h"

#include <string>
#include <vector>

namespace hvdrun {

std::optional<ProgramProblem> preflight(const JobSpec& spec) {
  std::vector<std::string> programs{spec.argv.empty() ? "" : spec.argv.front()};
  for (const ProgramPart& part : spec.programs)
    programs.push_back(part.argv.empty() ? "" : part.argv.front());
  return check_programs(programs, {spec.env, spec.cwd, spec.np(), spec.allow_mpi});
}

}  // namespace hvdrun
