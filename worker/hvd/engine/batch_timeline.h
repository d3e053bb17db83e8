// The timeline's news of a batch that runs: for each of its operations, its first copy, the wait
// for the other ranks, and the collective itself. On a GPU there is no copy, and the collective is
// told by the GPU, whenever it gets to it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/engine/entry.h"
#include "worker/hvd/engine/timeline.h"
#include "worker/hvd/gpu/timings.h"

namespace hvdrun {

class BatchTimeline {
 public:
  // `timeline` may be null, or off: then nothing is told. `suffix`: of the engine's operations.
  BatchTimeline(Timeline* timeline, const std::string& suffix, const Entries& batch);
  BatchTimeline(Timeline* timeline, const std::string& suffix, const Operation& operation,
                std::uint64_t name);
  // Ends what has begun.
  ~BatchTimeline() { enter({}); }
  BatchTimeline(const BatchTimeline&) = delete;
  BatchTimeline& operator=(const BatchTimeline&) = delete;

  // For the call; null when nothing is told.
  const OperationHooks* hooks() const { return timeline_ != nullptr ? &hooks_ : nullptr; }

  // For what is run on a GPU; null when nothing is told, or no host sees it run (a graph).
  std::shared_ptr<GpuSpan> on_gpu() const;

  // An operation's lane in the timeline: its name, or what it is and which of those without one.
  static std::string lane_of(const Operation& operation, std::uint64_t name,
                             const std::string& suffix);
  static TimelineOp op_of(const Operation& operation);

 private:
  explicit BatchTimeline(Timeline* timeline);
  void add(const Operation& operation, std::uint64_t name, const std::string& suffix);
  void begin(const Operation& first);
  // The next phase of all; none: the last one has ended.
  void enter(std::optional<TimelinePhase> phase);

  using Lanes = std::vector<std::pair<std::string, TimelineOp>>;
  class OnGpu;

  Timeline* const timeline_;
  Lanes lanes_;
  bool on_gpu_ = false;
  bool captured_ = false;
  std::optional<TimelinePhase> phase_;
  OperationHooks hooks_;
};

}  // namespace hvdrun
