#include "coordinator/membership.h"

#include <algorithm>

namespace hvdrun {

const char* name_of(RankState state) {
  switch (state) {
    case RankState::assigned:
      return "assigned";
    case RankState::started:
      return "started";
    case RankState::joined:
      return "joined";
    case RankState::left:
      return "left";
    case RankState::exited:
      return "exited";
  }
  return "";
}

void Membership::assign(std::uint32_t np) {
  ranks_.clear();
  hosts_used_.clear();
  started_ = joined_ = exited_ = 0;
  ++epoch_;
  for (const RankPlace& place : assign_ranks(hosts_, np)) {
    if (hosts_used_.empty() || hosts_used_.back() != place.host) hosts_used_.push_back(place.host);
    ranks_.push_back({place, RankState::assigned, 0});
  }
  in_state_ = {size()};
}

std::vector<std::uint32_t> Membership::ranks_of(std::uint32_t host) const {
  // A host's ranks follow each other, in the order of the hosts.
  auto record = std::partition_point(ranks_.begin(), ranks_.end(),
                                     [host](const RankRecord& r) { return r.place.host < host; });
  std::vector<std::uint32_t> found;
  for (; record != ranks_.end() && record->place.host == host; ++record)
    found.push_back(record->place.rank);
  return found;
}

void Membership::set_state(std::uint32_t rank, RankState state) {
  RankState& old = ranks_[rank].state;
  if (old == state || old == RankState::exited) return;
  if (state == RankState::started && old == RankState::assigned) ++started_;
  // A rank that comes back after hvd::shutdown() was counted the first time.
  if (state == RankState::joined && old == RankState::started) ++joined_;
  if (state == RankState::exited) ++exited_;
  --in_state_[static_cast<std::size_t>(old)];
  ++in_state_[static_cast<std::size_t>(state)];
  old = state;
}

}  // namespace hvdrun
