#include "common/host/topology.h"

#include <algorithm>
#include <utility>

namespace hvdrun {

RankTable::RankTable(std::vector<HostSlots> hosts, std::uint32_t np) : hosts_(std::move(hosts)) {
  std::vector<std::uint32_t> hosts_with;  // by local rank: how many hosts have it
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    const std::uint32_t first = size();
    const std::uint32_t here = std::min(hosts_[host].slots, np - first);
    first_ranks_.push_back(first);
    if (here > 0) hosts_used_.push_back(host);
    if (hosts_with.size() < here) hosts_with.resize(here);
    for (std::uint32_t local = 0; local < here; ++local)
      places_.push_back({.rank = first + local,
                         .host = host,
                         .local_rank = local,
                         .local_size = here,
                         .cross_rank = hosts_with[local]++});
  }
  first_ranks_.push_back(size());
  for (RankPlace& place : places_) {
    place.cross_size = hosts_with[place.local_rank];
    place.size = size();
  }
}

std::span<const RankPlace> RankTable::on_host(std::uint32_t host) const {
  return std::span(places_).subspan(first_ranks_[host],
                                    first_ranks_[host + 1] - first_ranks_[host]);
}

std::uint32_t RankTable::node_rank(std::uint32_t host) const {
  const auto found = std::lower_bound(hosts_used_.begin(), hosts_used_.end(), host);
  return static_cast<std::uint32_t>(found - hosts_used_.begin());
}

}  // namespace hvdrun
