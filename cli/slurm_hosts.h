// The hosts of a Slurm allocation, as its variables tell them. Sans-I/O.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// SLURM_JOB_NODELIST ("tux[0-2],gpu7") and SLURM_TASKS_PER_NODE ("4(x3),2"; empty: one each) as a
// list for -H: "tux0:4,tux1:4,tux2:4,gpu7:2". On a fault: nothing, and what is wrong in one line.
std::optional<std::string> slurm_host_list(std::string_view nodes, std::string_view tasks,
                                           std::string& problem);

}  // namespace hvdrun
