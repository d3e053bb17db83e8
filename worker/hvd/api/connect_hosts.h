// The way in which the ranks of a job that stand on several hosts find each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "worker/hvd/client/agent_connection.h"
#include "worker/hvd/comm/abort_signal.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/link/awaited_links.h"

namespace hvdrun {

// Every rank listens; the first of each host tells its ranks' addresses by the job's store, and
// reads those of all (address_book.h). `local` is that of this host's ranks. `host_counts` becomes
// how many ranks each host has; `awaited` has what connections are waited for. `abort` ends
// waits. Throws hvd::Error.
std::unique_ptr<Communicator> connect_hosts(
    AgentConnection& agent, std::unique_ptr<HostCommunicator> local, std::uint32_t generation,
    AgentConnection::Deadline deadline, std::vector<std::size_t>& host_counts,
    std::shared_ptr<AwaitedLinks> awaited, std::shared_ptr<const AbortSignal> abort = {});

}  // namespace hvdrun
