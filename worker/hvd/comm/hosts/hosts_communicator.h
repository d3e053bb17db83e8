// Collectives between ranks on several hosts: shared memory inside a host, TCP between hosts.
//
// Between hosts only channel ranks speak (HostLayout): local rank c of a host has a connection to
// local rank c of every other one, and moves slice c of what is large. In an alltoall every rank
// speaks to every rank of other hosts.
//
// Reductions combine in the order of the ranks, as on one host, so that the bits do not depend on
// how the ranks are spread. Small ones are gathered by the first rank of each host and reduced
// there whole. Large ones pass the hosts in their order, in chunks: each adds its own ranks'
// elements to what comes from the host before, and the last host's results go back the same way.
// Each host sends and receives every byte twice at most, however many hosts there are.
#pragma once

#include <memory>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/hosts/hosts_context.h"

namespace hvdrun {

// Connects within the deadline of `options`; throws hvd::Error(unavailable, timeout).
std::unique_ptr<Communicator> make_hosts_communicator(HostsContext hosts,
                                                      const CallOptions& options);

}  // namespace hvdrun
