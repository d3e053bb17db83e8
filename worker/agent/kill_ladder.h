// How the ranks of a host are ended, the same on every path: a signal (TERM), a grace, then KILL.
// Sans-I/O: tells what to do and when to ask again.
#pragma once

#include <chrono>
#include <optional>

namespace hvdrun {

class KillLadder {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Step { none, signal, kill };

  // The first start counts; a later one can only shorten the grace.
  Step start(TimePoint now, std::chrono::milliseconds grace) {
    const TimePoint kill_at = now + grace;
    const bool first = !kill_at_ && !killed_;
    if (first || (kill_at_ && kill_at < *kill_at_)) kill_at_ = kill_at;
    return first ? Step::signal : Step::none;
  }
  Step tick(TimePoint now) {
    if (!kill_at_ || now < *kill_at_) return Step::none;
    kill_at_.reset();
    killed_ = true;
    return Step::kill;
  }
  std::optional<TimePoint> next_deadline() const { return kill_at_; }
  bool started() const { return kill_at_.has_value() || killed_; }

 private:
  std::optional<TimePoint> kill_at_;
  bool killed_ = false;
};

}  // namespace hvdrun
