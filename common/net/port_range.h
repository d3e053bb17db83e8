// A range of ports that the user allows for what other hosts connect to.
#pragma once

#include <cstdint>
#include <string>

namespace hvdrun {

struct PortRange {
  std::uint16_t first = 0;  // 0: any port
  std::uint16_t last = 0;
};

// "6000-6100"; false when it is none.
bool parse_port_range(const std::string& text, PortRange& range);

}  // namespace hvdrun
