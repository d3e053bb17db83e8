#include "coordinator/init_gate.h"

#include <algorithm>
#include <utility>

namespace hvdrun {

void InitGate::came(const std::vector<std::uint32_t>& ranks, TimePoint now) {
  for (const std::uint32_t rank : ranks) meeting_.came(rank);
  update(now);
}

void InitGate::left(std::uint32_t rank, TimePoint now) {
  fence_.withdraw(rank);
  meeting_.left(rank);
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
    for (const std::uint32_t rank : message.ranks) meeting_.came(rank);
  }
  update(now);
  return release;
}

std::optional<FenceFailed> InitGate::break_off(std::uint32_t gone, TimePoint now) {
  if (fence_.count() == 0) return std::nullopt;
  const std::vector<std::uint32_t> came = meeting_.gone();
  const bool was_here = std::binary_search(came.begin(), came.end(), gone);
  FenceFailed failed{fence_.number(), "rank " + std::to_string(gone) +
                                          (was_here ? " ended in hvd::init()"
                                                    : " ended before it called hvd::init()")};
  for (const std::uint32_t rank : fence_.waiting()) meeting_.left(rank);
  fence_.withdraw_all();
  update(now);
  return failed;
}

void InitGate::update(TimePoint now) {
  watch_is_old_ = meeting_.count() > 0 && !watch_.waiting().empty();
  if (watch_is_old_) return;
  if (meeting_.count() > 0) return watch_.update(meeting_.here(), meeting_.absent(), now);
  watch_.update({}, {}, now);
  // Those who have given up may all be gone, and why is asked all the same.
  const bool cause = doubt_.cause;
  doubt_ = {};
  doubt_.cause = cause;
}

InitWatch& InitGate::watch(TimePoint now) {
  if (std::exchange(watch_is_old_, false)) watch_.update(meeting_.here(), meeting_.absent(), now);
  return watch_;
}

std::optional<TimePoint> InitGate::next_deadline(bool somebody_exited) const {
  const auto watched = watch_.next_deadline();
  const auto hopeless = somebody_exited ? meeting_.next_deadline() : std::nullopt;
  if (!watched || !hopeless) return watched ? watched : hopeless;
  return std::min(*watched, *hopeless);
}

}  // namespace hvdrun
