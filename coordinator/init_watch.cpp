#include "coordinator/init_watch.h"

#include <algorithm>
#include <utility>

#include "common/limits.h"
#include "common/rank_ranges.h"

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kFirstWarning{10'000};

}  // namespace

InitWatch::InitWatch(std::string call, std::chrono::milliseconds limit,
                     std::chrono::milliseconds warning)
    : call_(std::move(call)),
      limit_(limit),
      first_warning_(warning.count() > 0 ? std::min(warning, kFirstWarning) : kFirstWarning) {}

void InitWatch::update(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
                       TimePoint now) {
  waiting_ = std::move(waiting);
  missing_ = std::move(missing);
  if (waiting_.empty()) {
    since_.reset();
    warning_.reset();
  } else if (!since_) {
    since_ = now;
    warning_ = now + first_warning_;
  }
}

InitWatch::Say InitWatch::tick(TimePoint now) {
  if (!since_) return Say::nothing;
  if (limit_.count() > 0 && now >= *since_ + limit_) return Say::too_long;
  if (now < *warning_) return Say::nothing;
  warning_ = now + waited(now);
  return Say::warning;
}

std::string InitWatch::warning(TimePoint now) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited(now)).count();
  std::string text = std::to_string(waiting_.size());
  text.append(waiting_.size() == 1 ? " rank waits in " : " ranks wait in ").append(call_);
  text.append(" since ").append(std::to_string(seconds)).append(" s for rank ");
  return text.append(rank_ranges(missing_, limits::kMaxNamedRanges));
}

std::optional<TimePoint> InitWatch::next_deadline() const {
  if (!since_ || limit_.count() == 0) return warning_;
  return std::min(*warning_, *since_ + limit_);
}

}  // namespace hvdrun
