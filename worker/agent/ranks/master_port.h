// A TCP port for MASTER_PORT that nobody else will be given: a socket is bound to it and held, but
// does not listen. Rank 0 can still bind and listen there, because both set SO_REUSEADDR, as every
// server of that kind does. The kernel hands the port to nobody who asks for any free one.
#pragma once

#include <cstdint>

#include "common/base/unique_fd.h"
#include "common/net/port_range.h"

namespace hvdrun {

// Port 0 when there is none to be had.
UniqueFd hold_free_port(PortRange range, std::uint16_t& port);

}  // namespace hvdrun
