// The hosts of a Slurm allocation, as its variables tell them. Sans-I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/environment.h"

namespace hvdrun {

// A part of the job that salloc and sbatch have been asked for at once; mostly one. A job of
// several (salloc -N1 : -N4) has variables for each, and in a batch script those of the first
// besides, without a number.
struct SlurmComponent {
  std::string suffix;  // of its variables: "_HET_GROUP_1"; empty: it is the only one
  std::string nodes;   // SLURM_JOB_NODELIST: "tux[0-2],gpu7"
  std::string tasks;   // SLURM_TASKS_PER_NODE: "4(x3),2"; empty: it does not say
  // A number of tasks was asked for (SLURM_NTASKS); otherwise one for each node is not said.
  bool asked = true;
};

// All components of the allocation that `env` is of, in their order; none: it is of no allocation.
// On a fault: nothing, and what is wrong in one line.
std::optional<std::vector<SlurmComponent>> slurm_components(const Environment& env,
                                                            std::string& problem);

// Their nodes as a list for -H: "tux0:4,tux1:4,tux2:4,gpu7:2", names alone where nothing says how
// many tasks they have. On a fault as above.
std::optional<std::string> slurm_host_list(const std::vector<SlurmComponent>& components,
                                           std::string& problem);
// For messages: the variable that such a list is from.
std::string slurm_hosts_where(const std::vector<SlurmComponent>& components);

// For each node the first component that has it. Lists that cannot be read have none.
std::map<std::string, std::uint32_t> slurm_nodes(const std::vector<SlurmComponent>& components);

}  // namespace hvdrun
