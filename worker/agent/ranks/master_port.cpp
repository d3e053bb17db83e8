#include "worker/agent/ranks/master_port.h"

#include "common/net/open_port.h"

namespace hvdrun {

UniqueFd hold_free_port(PortRange range, std::uint16_t& port) {
  std::error_code ec;
  UniqueFd fd = open_port_everywhere(range, PortUse::is_held, ec);
  port = fd ? port_of(fd) : 0;
  return fd;
}

}  // namespace hvdrun
