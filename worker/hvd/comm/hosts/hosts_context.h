// The ground that operations across hosts stand on, handed in by whoever makes the communicator.
#pragma once

#include <cstddef>
#include <memory>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/host_layout.h"
#include "worker/hvd/comm/link/link_set.h"

namespace hvdrun {

struct HostsContext {
  HostLayout layout;
  std::size_t rank = 0;
  // For the ranks of this host.
  std::unique_ptr<HostCommunicator> local;
  // Knows its peers, has no connection yet.
  std::unique_ptr<LinkSet> links;
};

}  // namespace hvdrun
