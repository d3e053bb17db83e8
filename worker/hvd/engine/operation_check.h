// The check of an operation before anybody runs it.
#pragma once

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/engine/operation.h"

namespace hvdrun {

// Throws Error(invalid_argument) for what no rank could run: it must not reach the others.
void check(const Operation& operation, const Communicator& communicator);

}  // namespace hvdrun
