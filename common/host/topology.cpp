#include "common/host/topology.h"

#include <algorithm>

namespace hvdrun {

std::vector<RankPlace> assign_ranks(const std::vector<HostSlots>& hosts, std::uint32_t np) {
  std::vector<RankPlace> places;
  std::vector<std::uint32_t> hosts_with;  // by local rank: how many hosts have it
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    const auto rank = static_cast<std::uint32_t>(places.size());
    const std::uint32_t here = std::min(hosts[host].slots, np - rank);
    if (hosts_with.size() < here) hosts_with.resize(here);
    for (std::uint32_t local = 0; local < here; ++local)
      places.push_back({rank + local, host, local, here, hosts_with[local]++, 0});
  }
  for (RankPlace& place : places) place.cross_size = hosts_with[place.local_rank];
  return places;
}

}  // namespace hvdrun
