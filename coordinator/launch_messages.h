// The messages that tell every host what to start.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/host/topology.h"
#include "common/wire/messages.h"
#include "coordinator/job_spec.h"

namespace hvdrun {

// `master_addr` and `master_port` are where rank 0 is reached.
LaunchBody launch_body(const JobSpec& spec, const std::string& master_addr,
                       std::uint16_t master_port);

// The slot of each rank as programs of Horovod see it; empty: as all others do.
std::vector<HorovodSlot> horovod_slots(const JobSpec& spec);

// Calls `send` for each host that has a rank, in the order of ranks.hosts_used(). `addresses`
// has theirs; a host that is alone is told its own only when others may come.
void for_each_launch(const RankTable& ranks, const std::vector<std::string>& addresses,
                     bool others_may_come,
                     const std::function<void(std::uint32_t host, const LaunchHead&)>& send);

}  // namespace hvdrun
