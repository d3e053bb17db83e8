// How the ranks of a job that stand on several hosts find each other.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/client/agent_line.h"
#include "worker/comm/communicator.h"

namespace hvdrun {

// Every rank listens; the first of each host puts its ranks' addresses into the job's store and
// reads those of the other hosts. `local` is that of this host's ranks. Throws hvd::Error.
std::unique_ptr<Communicator> join_hosts(AgentLine& line, std::unique_ptr<HostCommunicator> local,
                                         std::uint32_t generation, AgentLine::Deadline deadline);

}  // namespace hvdrun
