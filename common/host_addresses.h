// The addresses of this machine that other machines can use.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// Without the loopback and link-local ones, IPv4 first: "10.0.0.1", "2001:db8::1". Empty when there
// is no network.
std::vector<std::string> host_addresses();

}  // namespace hvdrun
