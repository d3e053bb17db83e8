// TCP ports of this machine that other hosts connect to.
#pragma once

#include <cstdint>
#include <system_error>

#include <boost/asio/ip/address.hpp>

#include "common/base/unique_fd.h"
#include "common/net/port_range.h"

namespace hvdrun {

enum class PortUse { listens, is_held };

// A TCP socket on `address` and a port of the range that nobody has, which listens there or only
// holds it. `::` is all addresses of both families. Afterwards SO_REUSEADDR is set, so that a held
// port can be had by a server that sets it too. A fault when no port is free.
UniqueFd open_port(const boost::asio::ip::address& address, PortRange range, PortUse use,
                   std::error_code& ec);
// At all addresses of this machine, those of IPv6 included when the kernel has it.
UniqueFd open_port_everywhere(PortRange range, PortUse use, std::error_code& ec);

// 0 when the socket is bound to none.
std::uint16_t port_of(const UniqueFd& socket);

}  // namespace hvdrun
