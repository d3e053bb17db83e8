// Lists of hosts: -H "host:slots,host:slots" and the lines of a hostfile. What an item may be:
// cli/hosts/host_item.h; one without a number of slots has one. Sans-I/O: names are not looked up
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hosts/host_item.h"

namespace hvdrun {

// Name, user and port together are the host: what has another of them is another host.
struct HostEntry {
  std::string name;
  std::uint32_t slots = 0;
  HostLogin login{};
  std::uint32_t mentions = 1;  // how often it stands in the list
  bool counted = false;        // the list says how many slots it has
};

// One line that names the item and says what to write, and where the item stands.
struct HostListProblem {
  std::string text;
  std::size_t at = 0;    // byte, in the list
  std::size_t size = 0;  // bytes
  std::size_t line = 0;  // of a hostfile, from 1
};

// On a fault: nothing, and `problem`. A host that appears twice is merged into its first place, its
// slots added.
std::optional<std::vector<HostEntry>> parse_host_list(std::string_view text,
                                                      HostListProblem& problem);

// Horovod's and Open MPI's "host slots=4 max_slots=8", and MPICH's "host:4", a host a line; #
// begins a comment. Windows' line ends and byte order mark do not matter.
std::optional<std::vector<HostEntry>> parse_hostfile(std::string_view text,
                                                     HostListProblem& problem);

}  // namespace hvdrun
