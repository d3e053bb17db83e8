// Some ranks wait in hvd::init for others: since when, when to say so, when it is too long.
// Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "common/time_point.h"

namespace hvdrun {

class InitWatch {
 public:
  enum class Say : std::uint8_t { nothing, warning, too_long };

  // After every change: how many ranks wait now.
  void update(std::uint32_t waiting, TimePoint now);
  // What is to be said now. `limit` is how long anybody may wait; 0: for ever.
  Say tick(TimePoint now, std::chrono::milliseconds limit);
  // How long somebody has waited without a break; only while somebody does.
  TimePoint::duration waited(TimePoint now) const { return now - since_.value_or(now); }
  // When tick() wants to be called at the latest.
  std::optional<TimePoint> next_deadline(std::chrono::milliseconds limit) const;

 private:
  std::optional<TimePoint> since_;
  std::optional<TimePoint> warning_;
};

}  // namespace hvdrun
