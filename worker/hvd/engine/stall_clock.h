// The times at which an engine tells that its oldest operation waits: after each further span of
// `after`. Sans-I/O.
#pragma once

#include <chrono>

namespace hvdrun {

class StallClock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // 0: never.
  explicit StallClock(std::chrono::milliseconds after) : after_(after) {}

  // The next time for an operation that waits since `oldest`.
  TimePoint next(TimePoint oldest) {
    if (after_.count() == 0) return TimePoint::max();
    if (oldest != since_) {
      since_ = oldest;
      told_ = 0;
    }
    return since_ + (told_ + 1) * after_;
  }
  void told() { ++told_; }

 private:
  const std::chrono::milliseconds after_;
  TimePoint since_{};  // of the operation that was told of
  int told_ = 0;
};

}  // namespace hvdrun
