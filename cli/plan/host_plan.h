// The hosts that the options name, and which of them are this machine.
#pragma once

#include <cstdint>
#include <vector>

#include "cli/plan/launch_plan.h"

namespace hvdrun {

inline constexpr std::uint16_t kSshPort = 22;

// The options, with the hosts of the Slurm allocation that hvdrun runs in when they name none. An
// allocation of this machine alone changes nothing. Throws UsageError.
Options with_allocation(Options options, const Surroundings& here);

// Fills in the hosts, and logins, remote, notes and warnings of the plan. All names of this machine
// become one host, in the place and under the name of the first. Returns for each host its names
// with the slots that each of them has. Throws UsageError.
std::vector<std::vector<HostSlots>> plan_hosts(const Options& options, const Surroundings& here,
                                               std::vector<HostSlots>& hosts, LaunchPlan& plan);

// For each whether it is this machine.
std::vector<bool> find_this_machine(const std::vector<HostEntry>& hosts, const Options& options,
                                    const Surroundings& here);

}  // namespace hvdrun
