#include "coordinator/init_watch.h"

#include <algorithm>

namespace hvdrun {
namespace {

// When the user is first told; then each time after twice as long.
constexpr std::chrono::milliseconds kFirstWarning{10'000};

}  // namespace

void InitWatch::update(std::uint32_t waiting, TimePoint now) {
  if (waiting == 0) {
    since_.reset();
    warning_.reset();
  } else if (!since_) {
    since_ = now;
    warning_ = now + kFirstWarning;
  }
}

InitWatch::Say InitWatch::tick(TimePoint now, std::chrono::milliseconds limit) {
  if (!since_) return Say::nothing;
  if (limit.count() > 0 && now >= *since_ + limit) return Say::too_long;
  if (now < *warning_) return Say::nothing;
  warning_ = now + waited(now);
  return Say::warning;
}

std::optional<TimePoint> InitWatch::next_deadline(std::chrono::milliseconds limit) const {
  if (!since_ || limit.count() == 0) return warning_;
  return std::min(*warning_, *since_ + limit);
}

}  // namespace hvdrun
