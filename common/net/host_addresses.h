// The addresses of this machine, and the network interfaces that have them.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

struct HostAddress {
  std::string interface;  // "eth0"
  std::string address;    // "10.0.0.1", "2001:db8::1"
};

// Those that other machines can use: without the loopback and link-local ones, IPv4 first. Empty
// when there is no network.
std::vector<HostAddress> host_addresses();

// The interface that has this address, the loopback one included; empty: none has.
std::string interface_of(const std::string& address);

// The address of this machine from which packets to another leave; empty: none.
std::string address_towards(const std::string& address);

// An IPv4 or IPv6 address in numbers.
bool is_ip_address(const std::string& text);

}  // namespace hvdrun
