// The time for which two programs on different machines wait for each other's word. Each says
// something every heartbeat; a silence is named once, and ends the connection when the lease is
// over. Sans-I/O.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/limits.h"
#include "common/base/time_point.h"

namespace hvdrun {

// Often enough that one which comes late costs little of the lease.
inline std::chrono::milliseconds heartbeat_of(std::chrono::milliseconds lease) {
  return std::clamp(lease / 8, limits::kMinHeartbeat, limits::kHeartbeat);
}

// For the connection that carries it: longer than it takes to tell, so that the silence is named.
inline std::chrono::milliseconds patience_of(std::chrono::milliseconds lease) { return 2 * lease; }

class Lease {
 public:
  Lease() = default;
  Lease(std::chrono::milliseconds length, TimePoint now)
      : length_(length + heartbeat_of(length)), last_heard_(now) {}

  // Any word from the other side. Returns how long it had said nothing, if that has been named.
  std::optional<std::chrono::milliseconds> heard(TimePoint now) {
    const auto silence = silence_at(now);
    last_heard_ = now;
    if (!named_) return std::nullopt;
    named_ = false;
    return silence;
  }
  // True once in a silence: it has lasted so long that somebody should be told.
  bool names_silence(TimePoint now) {
    if (named_ || silence_at(now) < limits::kSilence) return false;
    named_ = true;
    return true;
  }
  std::chrono::milliseconds silence_at(TimePoint now) const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - last_heard_);
  }
  bool is_over(TimePoint now) const { return now >= end(); }
  // A heartbeat later than the lease itself: whoever pauses for less may have spoken that long
  // before.
  TimePoint end() const { return last_heard_ + length_; }

 private:
  std::chrono::milliseconds length_{};
  TimePoint last_heard_{};
  bool named_ = false;
};

}  // namespace hvdrun
