// This rank's words to the timeline: when each phase of an operation on a tensor began and ended.
// Off, it costs one relaxed load; on, a short lock and 16 bytes in a ring. Thread-safe.
//
// Phases of one tensor follow each other; those of different tensors overlap as they like. Somebody
// takes the events away in batches (AgentConnection). When nobody does in time, they are dropped,
// from then until the ring is empty, and the next batch says how many.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/mutex.h"
#include "common/wire/timeline_messages.h"

namespace hvdrun {

class Timeline {
 public:
  static constexpr std::size_t kCapacity = 1U << 15;  // events
  static constexpr std::size_t kBatch = 1U << 13;     // events; about 74 KB on the wire

  // CLOCK_MONOTONIC in nanoseconds; tests pass their own.
  using Clock = std::uint64_t (*)();
  static std::uint64_t now();
  // Called when the first event is there (false), and when there are enough for a whole batch
  // (true); on the thread that records, without a lock.
  using Wake = std::function<void(bool at_once)>;

  // Off. Sessions are counted from `earlier_sessions`: hvdrun takes one with a lower number for an
  // old one, so an init() must begin above those of the one before it.
  explicit Timeline(Wake wake = {}, Clock clock = now, std::uint32_t earlier_sessions = 0);

  // True: somebody wants to be told. begin() and its like look themselves.
  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }

  // Forgets what is left of an earlier session. Throws std::bad_alloc.
  void start(bool mark_cycles) HVD_EXCLUDES(mutex_);
  // Records that are there can still be taken.
  void stop() noexcept HVD_EXCLUDES(mutex_);
  // Counts start().
  std::uint32_t session() const HVD_EXCLUDES(mutex_);

  // Names longer than limits::kMaxTimelineName are cut off. `op` names the operation in the
  // phases negotiate and reduce.
  void begin(std::string_view tensor, TimelinePhase phase,
             TimelineOp op = TimelineOp::none) noexcept HVD_EXCLUDES(mutex_) {
    if (on()) record(tensor, TimelineMark::begin, phase, op);
  }
  void end(std::string_view tensor, TimelinePhase phase, TimelineOp op = TimelineOp::none) noexcept
      HVD_EXCLUDES(mutex_) {
    if (on()) record(tensor, TimelineMark::end, phase, op);
  }
  // The time of an operation on a GPU, which is known only later: nanoseconds of the clock.
  void gpu_begin(std::string_view tensor, TimelineOp op, std::uint64_t time) noexcept
      HVD_EXCLUDES(mutex_) {
    if (on()) record(tensor, TimelineMark::gpu_begin, TimelinePhase::reduce, op, time);
  }
  void gpu_end(std::string_view tensor, TimelineOp op, std::uint64_t time) noexcept
      HVD_EXCLUDES(mutex_) {
    if (on()) record(tensor, TimelineMark::gpu_end, TimelinePhase::reduce, op, time);
  }
  // Nothing unless start() was asked to mark cycles.
  void mark_cycle() noexcept HVD_EXCLUDES(mutex_) {
    if (on() && mark_cycles_.load(std::memory_order_relaxed))
      record({}, TimelineMark::cycle, {}, TimelineOp::none);
  }

  // The oldest events, or nothing when there is nothing to tell. The rank is left to the caller.
  // One caller at a time.
  std::optional<TimelineBatch> take() HVD_EXCLUDES(mutex_);

 private:
  struct Record {
    std::uint64_t time = 0;
    std::uint32_t name = 0;  // index into names_
    TimelineMark mark{};
    TimelinePhase phase{};
    TimelineOp op{};
  };
  struct Hash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the library's name
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  // Without a time: now.
  void record(std::string_view tensor, TimelineMark mark, TimelinePhase phase, TimelineOp op,
              std::optional<std::uint64_t> time = {}) noexcept HVD_EXCLUDES(mutex_);
  bool keep(std::string_view tensor, Record record) HVD_REQUIRES(mutex_);
  std::uint32_t number_of(std::string_view tensor) HVD_REQUIRES(mutex_);
  std::size_t times_fit(std::size_t most, std::uint64_t& first) const HVD_REQUIRES(mutex_);
  TimelineEvents take_events() HVD_REQUIRES(mutex_);

  const Wake wake_;
  const Clock clock_;
  std::atomic<bool> on_{false};
  std::atomic<bool> mark_cycles_{false};

  mutable Mutex mutex_;
  std::uint32_t session_ HVD_GUARDED_BY(mutex_) = 0;
  std::vector<Record> ring_ HVD_GUARDED_BY(mutex_);
  std::size_t first_ HVD_GUARDED_BY(mutex_) = 0;
  std::size_t count_ HVD_GUARDED_BY(mutex_) = 0;
  bool overflowed_ HVD_GUARDED_BY(mutex_) = false;  // until the ring is empty
  std::uint64_t dropped_ HVD_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_
      HVD_GUARDED_BY(mutex_);
  std::vector<const std::string*> names_ HVD_GUARDED_BY(mutex_);  // the keys of numbers_
  std::uint32_t last_name_ HVD_GUARDED_BY(mutex_) = 0;            // that was recorded
};

// A phase that lasts as long as this object. `timeline` may be null; the name must outlive it.
class TimelineSpan {
 public:
  TimelineSpan(Timeline* timeline, std::string_view tensor, TimelinePhase phase,
               TimelineOp op = TimelineOp::none) noexcept
      : timeline_(timeline != nullptr && timeline->on() ? timeline : nullptr),
        tensor_(tensor),
        phase_(phase),
        op_(op) {
    if (timeline_ != nullptr) timeline_->begin(tensor_, phase_, op_);
  }
  ~TimelineSpan() {
    if (timeline_ != nullptr) timeline_->end(tensor_, phase_, op_);
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;

 private:
  Timeline* const timeline_;
  const std::string_view tensor_;
  const TimelinePhase phase_;
  const TimelineOp op_;
};

}  // namespace hvdrun
