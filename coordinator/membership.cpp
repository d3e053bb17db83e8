#include "coordinator/membership.h"

#include <algorithm>
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
  dealt_ = {};
  dealt_.places = table_.places();
  for (const RankPlace& place : table_.places()) {
    ranks_.push_back({place, RankState::assigned, 0});
    dealt_.slots.push_back(place.rank);
  }
  in_state_ = {size()};
}

void Membership::assign(Assignment dealt) {
  dealt_ = std::move(dealt);
  ++epoch_;
}

void Membership::add_slot(std::uint32_t host) {
  ranks_.push_back({table_.add_slot(host), RankState::exited, 0});
  ++in_state_[static_cast<std::size_t>(RankState::exited)];
  ++exited_;
}

void Membership::restart(std::uint32_t slot) {
  RankRecord& record = ranks_[slot];
  if (record.state != RankState::exited) return;
  --in_state_[static_cast<std::size_t>(RankState::exited)];
  ++in_state_[static_cast<std::size_t>(RankState::assigned)];
  --exited_;
  record.state = RankState::assigned;
  record.pid = 0;
}

Membership Membership::in_ranks() const {
  Membership view = *this;
  view.ranks_.clear();
  view.in_state_ = {};
  for (std::uint32_t rank = 0; rank < dealt_.slots.size(); ++rank) {
    RankRecord record = ranks_[dealt_.slots[rank]];
    record.place = dealt_.places[rank];
    ++view.in_state_[static_cast<std::size_t>(record.state)];
    view.ranks_.push_back(record);
  }
  return view;
}

std::optional<std::uint32_t> Membership::rank_of(std::uint32_t slot) const {
  // Mostly they are the same.
  if (slot < dealt_.slots.size() && dealt_.slots[slot] == slot) return slot;
  const auto found = std::find(dealt_.slots.begin(), dealt_.slots.end(), slot);
  if (found == dealt_.slots.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - dealt_.slots.begin());
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
