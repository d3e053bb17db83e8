// Opens a host that is this machine: starts a guard with its lease pipe and hands it the job.
#pragma once

#include <string>
#include <system_error>

#include "common/messages.h"
#include "common/process.h"
#include "common/unique_fd.h"

namespace hvdrun {

struct OpenHost {
  Process guard;
  UniqueFd lease;  // closing it ends everything on the host
};

struct LocalConnections {
  UniqueFd control;  // to the coordinator; none: bootstrap.control has addresses
  UniqueFd output;   // to the driver; likewise
};

// The hvd-agent that belongs to this hvdrun: $HVDRUN_AGENT, beside it, or where it is installed.
// Throws std::runtime_error that names the places looked at.
std::string find_agent();

// On a fault: the system's error.
std::error_code open_local_host(const std::string& agent, Bootstrap bootstrap,
                                LocalConnections connections, OpenHost& host);

}  // namespace hvdrun
