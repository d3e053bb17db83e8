// Lists of hosts: -H "host:slots,host:slots" and the lines of a hostfile. A host may stand without
// a number of slots, which means one, and as a range: node[01-16]:4, node[1,3,5-7]. Sans-I/O: names
// are not looked up here.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/topology.h"

namespace hvdrun {

// One line that names the item and says what to write, and where the item stands.
struct HostListProblem {
  std::string text;
  std::size_t at = 0;    // byte, in the list
  std::size_t size = 0;  // bytes
  std::size_t line = 0;  // of a hostfile, from 1
};

// On a fault: nothing, and `problem`. A host that appears twice is merged into its first place.
std::optional<std::vector<HostSlots>> parse_host_list(std::string_view text,
                                                      HostListProblem& problem);

// Horovod's and Open MPI's "host slots=4 max_slots=8", and MPICH's "host:4"; # begins a comment.
std::optional<std::vector<HostSlots>> parse_hostfile(std::string_view text,
                                                     HostListProblem& problem);

}  // namespace hvdrun
