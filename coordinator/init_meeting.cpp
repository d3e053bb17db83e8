#include "coordinator/init_meeting.h"

#include <chrono>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kLatecomers{500};

}  // namespace

InitMeeting::InitMeeting(std::uint32_t size, const std::vector<std::uint32_t>& members)
    : places_(size, Place::absent),
      members_(size, false),
      needed_(static_cast<std::uint32_t>(members.size())) {
  for (const std::uint32_t slot : members) members_[slot] = true;
}

void InitMeeting::came(std::uint32_t rank) {
  if (rank >= places_.size() || !members_[rank] || places_[rank] == Place::here) return;
  places_[rank] = Place::here;
  ++here_;
}

void InitMeeting::left(std::uint32_t rank) {
  if (!is_here(rank)) return;
  places_[rank] = Place::gone;
  if (--here_ == 0) opened();
}

void InitMeeting::opened() {
  places_.assign(places_.size(), Place::absent);
  here_ = 0;
  hopeless_at_.reset();
  hopeless_said_ = false;
}

bool InitMeeting::is_hopeless(std::uint32_t exited, TimePoint now) {
  if (here_ == 0) return false;
  if (!hopeless_at_) hopeless_at_ = now + kLatecomers;
  if (here_ + exited < needed_ && now < *hopeless_at_) return false;
  hopeless_said_ = true;
  return true;
}

std::vector<std::uint32_t> InitMeeting::ranks_at(Place place) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < places_.size(); ++rank)
    if (members_[rank] && places_[rank] == place) ranks.push_back(rank);
  return ranks;
}

}  // namespace hvdrun
