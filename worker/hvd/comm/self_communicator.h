// The communicator of a job with one rank, or of a host with one.
#pragma once

#include <memory>

#include "worker/hvd/comm/communicator.h"

namespace hvdrun {

std::unique_ptr<HostCommunicator> make_self_communicator();

}  // namespace hvdrun
