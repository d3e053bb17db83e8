// What the timeline is told of a batch that runs: for each of its operations, its first copy, the
// wait for the other ranks, and the collective itself.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/comm/communicator.h"
#include "worker/engine/entry.h"
#include "worker/engine/timeline.h"

namespace hvdrun {

class BatchTimeline {
 public:
  // `timeline` may be null, or off: then nothing is told.
  BatchTimeline(Timeline* timeline, const Entries& batch);
  BatchTimeline(Timeline* timeline, const Operation& operation, std::uint64_t name);
  // Ends what has begun.
  ~BatchTimeline() { enter({}); }
  BatchTimeline(const BatchTimeline&) = delete;
  BatchTimeline& operator=(const BatchTimeline&) = delete;

  // For the call; null when nothing is told.
  const OperationHooks* hooks() const { return timeline_ != nullptr ? &hooks_ : nullptr; }

  // What the timeline calls an operation: its name, or what it is and which of those without one.
  static std::string lane_of(const Operation& operation, std::uint64_t name);
  static TimelineOp op_of(const Operation& operation);

 private:
  explicit BatchTimeline(Timeline* timeline);
  void add(const Operation& operation, std::uint64_t name);
  void begin();
  // The next phase of all; none: the last one has ended.
  void enter(std::optional<TimelinePhase> phase);

  Timeline* const timeline_;
  std::vector<std::pair<std::string, TimelineOp>> lanes_;
  std::optional<TimelinePhase> phase_;
  OperationHooks hooks_;
};

}  // namespace hvdrun
