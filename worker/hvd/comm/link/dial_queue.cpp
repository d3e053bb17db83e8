#include "worker/hvd/comm/link/dial_queue.h"

namespace hvdrun {

std::optional<std::size_t> DialQueue::next(TimePoint now) {
  if (under_way_ >= kAtOnce) return std::nullopt;
  std::optional<std::size_t> rank;
  if (!pausing_.empty() && pausing_.begin()->first <= now) {
    rank = pausing_.begin()->second;
    pausing_.erase(pausing_.begin());
  } else if (position_ < ranks_.size()) {
    rank = ranks_[position_++];
  }
  if (rank) ++under_way_;
  return rank;
}

void DialQueue::done(std::size_t rank) {
  --under_way_;
  tries_.erase(rank);
}

bool DialQueue::again(std::size_t rank, TimePoint now) {
  const int tries = ++tries_[rank];
  if (tries >= kMostTries) return false;
  --under_way_;
  pausing_.emplace(now + kFirstPause * (1 << (tries - 1)), rank);
  return true;
}

std::optional<DialQueue::TimePoint> DialQueue::wakes_at() const {
  if (under_way_ >= kAtOnce) return std::nullopt;
  // One look may find all that were under way connected: nobody is left who would wake the caller.
  if (position_ < ranks_.size()) return TimePoint{};
  if (pausing_.empty()) return std::nullopt;
  return pausing_.begin()->first;
}

}  // namespace hvdrun
