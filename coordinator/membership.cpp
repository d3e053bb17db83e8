#include "coordinator/membership.h"

#include <utility>

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

void Membership::assign(RankTable table) {
  table_ = std::move(table);
  ranks_.clear();
  started_ = joined_ = exited_ = 0;
  ++epoch_;
  for (const RankPlace& place : table_.places()) ranks_.push_back({place, RankState::assigned, 0});
  in_state_ = {size()};
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
