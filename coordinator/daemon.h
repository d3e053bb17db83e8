// Runs the coordinator as a process and session of its own.
#pragma once

#include "common/process/process.h"
#include "coordinator/server.h"

namespace hvdrun {

// Forks the coordinator. The caller must have one thread and no io_context yet. The descriptors
// of `options` go to the child and are closed here; the child keeps no other, so that it holds
// neither the user's terminal nor a pipe that somebody reads to its end. Throws std::system_error.
Process start_coordinator(ServerOptions options);

}  // namespace hvdrun
