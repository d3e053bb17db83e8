#include "common/host/topology.h"

#include <algorithm>
#include <utility>

namespace hvdrun {

RankTable::RankTable(std::vector<HostSlots> hosts, std::uint32_t np) : hosts_(std::move(hosts)) {
  std::vector<std::uint32_t> hosts_with;  // by local rank: how many hosts have it
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    const std::uint32_t first = size();
    const std::uint32_t here = std::min(hosts_[host].slots, np - first);
    by_host_.emplace_back();
    if (here > 0) hosts_used_.push_back(host);
    if (hosts_with.size() < here) hosts_with.resize(here);
    for (std::uint32_t local = 0; local < here; ++local) {
      by_host_.back().push_back(first + local);
      places_.push_back({.rank = first + local,
                         .host = host,
                         .local_rank = local,
                         .local_size = here,
                         .cross_rank = hosts_with[local]++});
    }
  }
  for (RankPlace& place : places_) {
    place.cross_size = hosts_with[place.local_rank];
    place.size = size();
  }
}

std::vector<RankPlace> RankTable::on_host(std::uint32_t host) const {
  std::vector<RankPlace> here;
  here.reserve(by_host_[host].size());
  for (const std::uint32_t rank : by_host_[host]) here.push_back(places_[rank]);
  return here;
}

std::uint32_t RankTable::add_host(HostSlots host) {
  hosts_.push_back(std::move(host));
  by_host_.emplace_back();
  return static_cast<std::uint32_t>(hosts_.size() - 1);
}

RankPlace RankTable::add_slot(std::uint32_t host) {
  const auto local = static_cast<std::uint32_t>(by_host_[host].size());
  std::uint32_t cross_rank = 0;
  for (const std::uint32_t used : hosts_used_)
    if (used != host && by_host_[used].size() > local) ++cross_rank;
  if (local == 0)
    hosts_used_.insert(std::upper_bound(hosts_used_.begin(), hosts_used_.end(), host), host);
  places_.push_back({.rank = size(),
                     .host = host,
                     .local_rank = local,
                     .local_size = local + 1,
                     .cross_rank = cross_rank,
                     .cross_size = cross_rank + 1,
                     .size = size() + 1});
  by_host_[host].push_back(places_.back().rank);
  return places_.back();
}

std::uint32_t RankTable::node_rank(std::uint32_t host) const {
  const auto found = std::lower_bound(hosts_used_.begin(), hosts_used_.end(), host);
  return static_cast<std::uint32_t>(found - hosts_used_.begin());
}

}  // namespace hvdrun
