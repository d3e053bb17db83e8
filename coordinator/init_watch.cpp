#include "coordinator/init_watch.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "common/base/limits.h"
#include "common/base/rank_ranges.h"

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kFirstWarning{10'000};

}  // namespace

InitWatch::InitWatch(std::string call, std::chrono::milliseconds limit,
                     std::chrono::milliseconds warning, std::chrono::milliseconds own_limit)
    : call_(std::move(call)),
      limit_(limit),
      first_warning_(warning.count() > 0 ? std::min(warning, kFirstWarning) : kFirstWarning),
      first_look_(own_limit <= first_warning_ ? own_limit / 2 : own_limit.zero()) {}

void InitWatch::update(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
                       TimePoint now) {
  waiting_ = std::move(waiting);
  missing_ = std::move(missing);
  if (waiting_.empty()) {
    since_.reset();
    warning_.reset();
    look_.reset();
    too_long_said_ = false;
  } else if (!since_) {
    begin_again(now);
  }
}

void InitWatch::begin_again(TimePoint now) {
  since_ = now;
  warning_ = now + first_warning_;
  if (first_look_.count() > 0) look_ = now + first_look_;
  too_long_said_ = false;
}

InitWatch::Say InitWatch::tick(TimePoint now) {
  if (!since_ || too_long_said_) return Say::nothing;
  if (limit_.count() > 0 && now >= *since_ + limit_) {
    too_long_said_ = true;
    return Say::too_long;
  }
  if (look_ && now >= *look_) {
    look_.reset();
    return Say::look;
  }
  if (now < *warning_) return Say::nothing;
  warning_ = now + waited(now);
  return Say::warning;
}

std::string InitWatch::warning(TimePoint now) const {
  assert(!missing_.empty());
  return warning(waiting_.size(), "rank " + rank_ranges(missing_, limits::kMaxNamedRanges), now);
}

std::string InitWatch::warning(std::size_t waiting, const std::string& for_whom,
                               TimePoint now) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(waited(now)).count();
  std::string text = std::to_string(waiting);
  text.append(waiting == 1 ? " rank waits in " : " ranks wait in ").append(call_);
  text.append(" since ").append(std::to_string(seconds)).append(" s for ");
  return text.append(for_whom);
}

std::optional<TimePoint> InitWatch::next_deadline() const {
  if (too_long_said_) return std::nullopt;
  if (!since_) return std::nullopt;
  TimePoint next = look_ ? std::min(*look_, *warning_) : *warning_;
  if (limit_.count() > 0) next = std::min(next, *since_ + limit_);
  return next;
}

}  // namespace hvdrun
