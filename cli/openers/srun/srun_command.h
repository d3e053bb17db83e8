// The command line of srun, by which a host of a Slurm allocation is opened, and what its words
// mean. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/environment.h"

namespace hvdrun {

// The words that run `script` on `node` as a job step of one task. It may use all that the
// allocation has there, besides whatever other steps are running. `component`: of the job, where it
// has several (salloc -N1 : -N4); srun looks for a node in the first one only.
std::vector<std::string> srun_command(const std::string& node,
                                      std::optional<std::uint32_t> component,
                                      const std::string& script);

// The environment for it. srun takes its options from variables too, of which salloc, sbatch and an
// outer step set many: for their own tasks, not for this step.
Environment srun_environment(const Environment& env);

// A command that the user can type to see what srun does.
std::string srun_by_hand(const std::string& node, std::optional<std::uint32_t> component);

// The reason that slurmstepd gives for the end of a step, if this line of stderr has one: "STEP 7.1
// ON tux2 CANCELLED AT 2026-01-31T12:00:00 DUE TO TIME LIMIT". Else empty.
std::string step_end_in(std::string_view line);

// An error of srun itself, if the line is one; but not that its task has failed, which its exit
// code says. Else empty.
std::string srun_error_in(std::string_view line);

}  // namespace hvdrun
