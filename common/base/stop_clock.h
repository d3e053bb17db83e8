// The time for which a child has been stopped (SIGSTOP): its parent's answer to what a lease asks
// of another machine, without a word that anybody has to send. Sans-I/O; stopped_children.h knows
// who stops.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "common/base/lease.h"

namespace hvdrun {

class StopClock {
 public:
  explicit StopClock(std::chrono::milliseconds lease) : lease_(lease) {}

  // A change since the last call: the child has stopped, or goes on. To be told of each change, and
  // at `next_look()`.
  void saw(std::optional<bool> stopped, TimePoint now) {
    if (!stopped.value_or(seen_.has_value())) {
      seen_.reset();
      stopped_for_ = {};
      return;
    }
    // The watcher may have been stopped too, with its whole machine: that time counts as one look,
    // so that a child which goes on a moment later than its parent has done nothing wrong.
    if (seen_) stopped_for_ += std::min<TimePoint::duration>(now - *seen_, heartbeat_of(lease_));
    seen_ = now;
  }
  // True once in a stop: it has lasted so long that somebody should be told.
  bool names_stop() {
    if (named_ || !seen_ || stopped_for_ < limits::kSilence) return false;
    return named_ = true;
  }
  // True once after a stop that was named.
  bool names_end() { return !seen_ && std::exchange(named_, false); }
  bool is_over() const { return seen_ && stopped_for_ >= lease_; }
  std::chrono::seconds stopped_for() const {
    return std::chrono::duration_cast<std::chrono::seconds>(stopped_for_);
  }
  // None while the child runs: nobody wakes up for it then.
  std::optional<TimePoint> next_look() const {
    if (!seen_) return std::nullopt;
    return *seen_ + heartbeat_of(lease_);
  }

 private:
  std::chrono::milliseconds lease_;
  TimePoint::duration stopped_for_{};
  std::optional<TimePoint> seen_;  // stopped, at this time
  bool named_ = false;
};

}  // namespace hvdrun
