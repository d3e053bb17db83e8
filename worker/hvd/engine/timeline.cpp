#include "worker/hvd/engine/timeline.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include "common/base/limits.h"
#include "common/wire/wire.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxNameBytes = 64U << 10;  // of one batch
constexpr std::size_t kFewNames = 4096;           // worth keeping from batch to batch
constexpr std::uint16_t kNoName = 0xffff;

static_assert(Timeline::kBatch < kNoName);

}  // namespace

std::uint64_t Timeline::now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

Timeline::Timeline(Wake wake, Clock clock, std::uint32_t earlier_sessions)
    : wake_(std::move(wake)), clock_(clock), session_(earlier_sessions) {}

void Timeline::start(bool mark_cycles) {
  const MutexLock lock(mutex_);
  ring_.resize(kCapacity);
  first_ = count_ = 0;
  overflowed_ = false;
  dropped_ = 0;
  ++session_;
  mark_cycles_.store(mark_cycles, std::memory_order_relaxed);
  on_.store(true, std::memory_order_relaxed);
}

void Timeline::stop() noexcept {
  const MutexLock lock(mutex_);
  on_.store(false, std::memory_order_relaxed);
}

std::uint32_t Timeline::session() const {
  const MutexLock lock(mutex_);
  return session_;
}

void Timeline::record(std::string_view tensor, TimelineMark mark, TimelinePhase phase,
                      TimelineOp op, std::optional<std::uint64_t> time) noexcept {
  bool wake = false;
  bool at_once = false;
  {
    const MutexLock lock(mutex_);
    if (!on()) return;  // stopped meanwhile
    bool kept = false;
    try {
      // The clock under the lock: what is not of a GPU is in the order of time.
      kept = keep(tensor.substr(0, limits::kMaxTimelineName),
                  {time ? *time : clock_(), 0, mark, phase, op});
    } catch (const std::bad_alloc&) {
      overflowed_ = true;
    }
    if (!kept) ++dropped_;
    at_once = kept && count_ == kBatch;
    // Drops before the first event are to be told too.
    wake = at_once || (kept && count_ == 1) || (!kept && count_ == 0 && dropped_ == 1);
  }
  if (wake && wake_) wake_(at_once);
}

bool Timeline::keep(std::string_view tensor, Record record) {
  if (count_ == kCapacity) overflowed_ = true;
  // From here on without gaps: what is missing is missing between two batches.
  if (overflowed_) return false;
  if (record.mark != TimelineMark::cycle) record.name = number_of(tensor);
  if (record.name == limits::kMaxTimelineNames) {
    overflowed_ = true;
    return false;
  }
  ring_[(first_ + count_++) % kCapacity] = record;
  return true;
}

std::uint32_t Timeline::number_of(std::string_view tensor) {
  // Mostly that of the event before.
  if (last_name_ < names_.size() && *names_[last_name_] == tensor) return last_name_;
  const auto known = numbers_.find(tensor);
  if (known != numbers_.end()) return last_name_ = known->second;
  if (names_.size() == limits::kMaxTimelineNames) return limits::kMaxTimelineNames;
  const auto number = static_cast<std::uint32_t>(names_.size());
  names_.push_back(nullptr);
  try {
    names_.back() = &numbers_.emplace(tensor, number).first->first;
  } catch (const std::bad_alloc&) {
    names_.pop_back();
    throw;
  }
  return number;
}

std::optional<TimelineBatch> Timeline::take() {
  TimelineBatch batch;
  TimelineEvents events;
  {
    const MutexLock lock(mutex_);
    if (count_ == 0) overflowed_ = false;
    if (count_ == 0 && dropped_ == 0) return std::nullopt;
    batch.session = session_;
    // Dropped events come behind those that are in the ring.
    if (!overflowed_) batch.dropped = std::exchange(dropped_, 0);
    events = take_events();
    if (count_ == 0) {
      overflowed_ = false;
      if (names_.size() > kFewNames) {
        names_.clear();
        numbers_.clear();
      }
    }
  }
  batch.count = static_cast<std::uint32_t>(events.events.size());
  if (batch.count > 0) batch.bytes = encode(events);
  return batch;
}

// The number of the oldest events that are near enough to each other for one batch, and their first
// moment.
std::size_t Timeline::times_fit(std::size_t most, std::uint64_t& first) const {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < most; ++i) {
    const std::uint64_t time = ring_[(first_ + i) % kCapacity].time;
    const std::uint64_t new_first = i == 0 ? time : std::min(first, time);
    const std::uint64_t new_last = std::max(last, time);
    if (new_last - new_first > std::numeric_limits<std::uint32_t>::max()) return i;
    first = new_first;
    last = new_last;
  }
  return most;
}

TimelineEvents Timeline::take_events() {
  TimelineEvents result;
  std::vector<std::uint16_t> numbers(names_.size(), kNoName);  // in this batch
  std::size_t name_bytes = 0;
  const std::size_t most = times_fit(std::min(count_, kBatch), result.begin_ns);
  result.events.reserve(most);
  while (result.events.size() < most) {
    const Record& record = ring_[first_];
    TimelineEvent event{static_cast<std::uint32_t>(record.time - result.begin_ns), 0, record.mark,
                        record.phase, record.op};
    if (record.mark != TimelineMark::cycle) {
      std::uint16_t& number = numbers[record.name];
      if (number == kNoName) {
        const std::string& name = *names_[record.name];
        if (name_bytes + name.size() > kMaxNameBytes) break;
        name_bytes += name.size();
        number = static_cast<std::uint16_t>(result.names.size());
        result.names.push_back(name);
      }
      event.name = number;
    }
    result.events.push_back(event);
    first_ = (first_ + 1) % kCapacity;
    --count_;
  }
  return result;
}

}  // namespace hvdrun
