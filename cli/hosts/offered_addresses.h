// The addresses at which agents on other hosts look for this machine.
#pragma once

#include <string>
#include <vector>

#include "common/net/host_addresses.h"
#include "common/net/port_range.h"

namespace hvdrun {

struct NetworkOptions {
  std::vector<std::string> interfaces;  // --network-interfaces; empty: all
  std::vector<std::string> advertise;   // --advertise; empty: those of the interfaces
  PortRange ports;                      // --port-range
  bool encrypt_data = false;            // --encrypt-data: what ranks of different hosts send
};

// The options name the loopback interface alone, for a job of this machine: what it offers is
// 127.0.0.1. A host elsewhere that comes later is served through ssh. `loopback` is its name.
bool stays_here(const NetworkOptions& options, const std::string& loopback);

// `all` is what this machine has. Throws UsageError when a named interface has no address, and
// HostError when there is none at all.
std::vector<std::string> offered_addresses(const NetworkOptions& options,
                                           const std::vector<HostAddress>& all);

}  // namespace hvdrun
