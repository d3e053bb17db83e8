#include "coordinator/init_gate.h"

#include <algorithm>
#include <utility>

namespace hvdrun {

void InitGate::begin_epoch(std::uint32_t size, const std::vector<std::uint32_t>& members,
                           TimePoint now) {
  ranks_.resize(size);
  fence_ = Fence(size, members);
  meeting_ = InitMeeting(size, members);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) ranks_[members[rank]] = rank;
  known_links_.clear();
  doubt_ = {};
  update(now);
}

void InitGate::came(const std::vector<std::uint32_t>& slots, TimePoint now) {
  for (const std::uint32_t slot : slots) meeting_.came(slot);
  update(now);
}

void InitGate::left(std::uint32_t slot, TimePoint now) {
  if (!knows(slot)) return;
  fence_.withdraw(slot);
  meeting_.left(slot);
  update(now);
}

std::optional<FenceRelease> InitGate::enter(const FenceEnter& message, TimePoint now, Errc& fault) {
  auto release = fence_.enter(message, fault);
  if (fault != Errc::ok) return std::nullopt;
  if (release) {
    meeting_.opened();
    known_links_.clear();
    doubt_ = {};
  } else {
    for (const std::uint32_t slot : message.ranks) meeting_.came(slot);
  }
  update(now);
  return release;
}

std::optional<FenceFailed> InitGate::break_off(std::uint32_t gone, TimePoint now) {
  if (fence_.count() == 0) return std::nullopt;
  const std::vector<std::uint32_t> came = meeting_.gone();
  const bool was_here = std::binary_search(came.begin(), came.end(), gone);
  FenceFailed failed{fence_.number(), "rank " + std::to_string(ranks_[gone]) +
                                          (was_here ? " ended in hvd::init()"
                                                    : " ended before it called hvd::init()")};
  for (const std::uint32_t slot : fence_.waiting()) meeting_.left(slot);
  fence_.withdraw_all();
  update(now);
  return failed;
}

void InitGate::update(TimePoint now) {
  watch_is_old_ = meeting_.count() > 0 && !watch_.waiting().empty();
  if (watch_is_old_) return;
  if (meeting_.count() > 0) return update_watch(now);
  watch_.update({}, {}, now);
  // Those who have given up may all be gone, and why is asked all the same.
  const bool cause = doubt_.cause;
  doubt_ = {};
  doubt_.cause = cause;
}

void InitGate::update_watch(TimePoint now) {
  watch_.update(ranks_of(meeting_.here()), ranks_of(meeting_.absent()), now);
}

InitWatch& InitGate::watch(TimePoint now) {
  if (std::exchange(watch_is_old_, false)) update_watch(now);
  return watch_;
}

std::vector<std::uint32_t> InitGate::ranks_of(std::vector<std::uint32_t> slots) const {
  for (std::uint32_t& slot : slots) slot = ranks_[slot];
  std::sort(slots.begin(), slots.end());
  return slots;
}

std::optional<TimePoint> InitGate::next_deadline(bool somebody_exited) const {
  const auto watched = watch_.next_deadline();
  const auto hopeless = somebody_exited ? meeting_.next_deadline() : std::nullopt;
  if (!watched || !hopeless) return watched ? watched : hopeless;
  return std::min(*watched, *hopeless);
}

}  // namespace hvdrun
