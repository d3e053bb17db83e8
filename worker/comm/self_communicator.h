// The communicator of a job with one rank.
#pragma once

#include <memory>

#include "worker/comm/communicator.h"

namespace hvdrun {

std::unique_ptr<Communicator> make_self_communicator();

}  // namespace hvdrun
