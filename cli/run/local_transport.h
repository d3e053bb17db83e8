// Opens a host that is this machine: starts a guard with its lease pipe and hands it the job.
#pragma once

#include <string>
#include <system_error>

#include "common/base/unique_fd.h"
#include "common/process/process.h"
#include "common/wire/messages.h"

namespace hvdrun {

struct OpenHost {
  Process guard;
  UniqueFd lease;  // closing it ends everything on the host
  UniqueFd words;  // what guard and agent say on stderr
};

struct LocalConnections {
  UniqueFd control;  // to the coordinator; none: bootstrap.control has addresses
  UniqueFd output;   // to the driver; likewise
};

// An agent program to start in place of a fork of this process: $HVDRUN_AGENT, "" when unset.
// Throws std::runtime_error when it cannot be executed.
std::string agent_program();

// The guard is a fork of this process, which therefore must have one thread and no io_context yet;
// with `program` it is that program. On a fault: the system's error.
//
// Whoever is above guard and agent ends the ranks when both are killed. That is this process, as a
// sub-reaper. With `keeper` it is another between this one and the guard: it ends as the guard does
// and stands for it in `host`.
std::error_code open_local_host(const std::string& program, bool keeper, Bootstrap bootstrap,
                                LocalConnections connections, OpenHost& host);

}  // namespace hvdrun
