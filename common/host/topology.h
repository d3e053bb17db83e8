// Who is which rank: Horovod's table. Hosts in the order given, slots filled host by host; a
// cross rank counts the hosts that have this local rank, so it skips hosts that are too small.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

struct HostSlots {
  std::string name;
  std::uint32_t slots = 0;
};

struct RankPlace {
  std::uint32_t rank = 0;
  std::uint32_t host = 0;  // index into the list of hosts
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 0;
  std::uint32_t cross_rank = 0;
  std::uint32_t cross_size = 0;
};

// The places of ranks 0 .. np-1, in that order; fewer when the hosts have fewer slots. Hosts that
// get no rank do not appear.
std::vector<RankPlace> assign_ranks(const std::vector<HostSlots>& hosts, std::uint32_t np);

}  // namespace hvdrun
