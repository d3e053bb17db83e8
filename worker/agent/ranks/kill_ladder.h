// The way in which the ranks of a host are ended, the same on every path: the steps that the user
// chose (TERM and a grace unless told otherwise), then KILL. Sans-I/O: tells what to do and when to
// ask again.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <signal.h>
#include <utility>

#include "common/process/kill_steps.h"

namespace hvdrun {

class KillLadder {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Returns the signal to send now: the first step's. The first start counts; a later one can only
  // bring the end nearer.
  std::optional<int> start(TimePoint now, KillSteps steps) {
    const TimePoint end = now + std::chrono::milliseconds(total_wait_ms(steps));
    if (started_) {
      if (next_at_ && end < end_) end_ = end;
      if (next_at_ && *next_at_ > end_) next_at_ = end_;
      return std::nullopt;
    }
    started_ = true;
    steps_ = std::move(steps);
    end_ = end;
    return step(now);
  }
  // The signal that is due, if one is. SIGKILL is the last.
  std::optional<int> tick(TimePoint now) {
    if (!next_at_ || now < *next_at_) return std::nullopt;
    if (now >= end_) at_ = steps_.size();
    return step(now);
  }
  std::optional<TimePoint> next_deadline() const { return next_at_; }
  bool started() const { return started_; }

 private:
  std::optional<int> step(TimePoint now) {
    if (at_ >= steps_.size()) {
      next_at_.reset();
      return SIGKILL;
    }
    const KillStep& current = steps_[at_++];
    next_at_ = now + std::chrono::milliseconds(current.wait_ms);
    return static_cast<int>(current.signal);
  }

  KillSteps steps_;
  std::size_t at_ = 0;  // the next step
  std::optional<TimePoint> next_at_;
  TimePoint end_{};  // SIGKILL at the latest
  bool started_ = false;
};

}  // namespace hvdrun
