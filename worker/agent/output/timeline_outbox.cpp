#include "worker/agent/output/timeline_outbox.h"

#include <utility>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kQueryPause = 1'000'000'000;
constexpr std::size_t kItemBytes = 128;  // of what is held, besides its strings

}  // namespace

bool TimelineOutbox::hold(Item item, std::size_t bytes) {
  bytes += kItemBytes;
  if (held_bytes_ + bytes > limits::kMaxTimelineHeld) return false;
  held_bytes_ += bytes;
  held_.push_back(std::move(item));
  return true;
}

void TimelineOutbox::add(TimelineBatch batch) {
  std::uint64_t& dropped = dropped_[batch.rank];
  batch.dropped += dropped;
  const std::uint64_t lost = batch.dropped + batch.count;
  const std::size_t bytes = batch.bytes.size();
  dropped = hold(std::move(batch), bytes) ? 0 : lost;
}

void TimelineOutbox::add(TimelineControl control) {
  const std::size_t bytes = control.path.size();
  hold(std::move(control), bytes);
}

std::optional<ClockQuery> TimelineOutbox::query(std::uint64_t now) {
  if (same_clock_ || finished_ || asked_) return std::nullopt;
  const bool first = offset_.samples() < kFirstQueries;
  if (first ? held_.empty() && offset_.samples() == 0 : now - last_asked_ < kQueryPause)
    return std::nullopt;
  asked_ = last_asked_ = now;
  return ClockQuery{now};
}

void TimelineOutbox::reply(const ClockReply& reply, std::uint64_t now) {
  if (!asked_ || reply.sent_ns != *asked_) return;
  asked_.reset();
  if (!clock_.empty() && reply.clock == clock_) {
    same_clock_ = true;
    return;
  }
  offset_.add(reply.sent_ns, reply.now_ns, now);
}

std::string TimelineOutbox::take(std::uint64_t now) {
  std::string frames;
  if (!clock_is_known()) return frames;
  const std::uint64_t clock_add = same_clock_ ? 0 : offset_.to_remote(now);
  for (Item& item : std::exchange(held_, {})) {
    if (auto* batch = std::get_if<TimelineBatch>(&item)) {
      batch->clock_add = clock_add;
      frames += encode_frame(*batch);
    } else {
      frames += encode_frame(std::get<TimelineControl>(item));
    }
  }
  held_bytes_ = 0;
  return frames;
}

}  // namespace hvdrun
