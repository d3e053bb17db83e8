#include "worker/hvd/engine/batch_timeline.h"

#include "worker/hvd/engine/device_use.h"

namespace hvdrun {

BatchTimeline::BatchTimeline(Timeline* timeline)
    : timeline_(timeline != nullptr && timeline->on() ? timeline : nullptr) {}

BatchTimeline::BatchTimeline(Timeline* timeline, const std::string& suffix, const Entries& batch)
    : BatchTimeline(timeline) {
  if (timeline_ == nullptr) return;
  for (const auto& entry : batch) {
    add(entry->operation, entry->name, suffix);
    if (entry->queued) timeline_->end(lanes_.back().first, TimelinePhase::queue);
    entry->queued = false;  // of a second try nothing is told
  }
  begin(batch.front()->operation);
}

BatchTimeline::BatchTimeline(Timeline* timeline, const std::string& suffix,
                             const Operation& operation, std::uint64_t name)
    : BatchTimeline(timeline) {
  if (timeline_ == nullptr) return;
  add(operation, name, suffix);
  begin(operation);
}

void BatchTimeline::add(const Operation& operation, std::uint64_t name, const std::string& suffix) {
  lanes_.emplace_back(lane_of(operation, name, suffix), op_of(operation));
}

class BatchTimeline::OnGpu final : public GpuSpan {
 public:
  OnGpu(Timeline& timeline, Lanes lanes) : timeline_(timeline), lanes_(std::move(lanes)) {}
  void began(std::uint64_t time) noexcept override {
    for (const auto& [lane, op] : lanes_) timeline_.gpu_begin(lane, op, time);
  }
  void ended(std::uint64_t time) noexcept override {
    for (const auto& [lane, op] : lanes_) timeline_.gpu_end(lane, op, time);
  }

 private:
  Timeline& timeline_;
  const Lanes lanes_;
};

std::shared_ptr<GpuSpan> BatchTimeline::on_gpu() const {
  if (timeline_ == nullptr || !on_gpu_ || captured_) return nullptr;
  return std::make_shared<OnGpu>(*timeline_, lanes_);
}

void BatchTimeline::begin(const Operation& first) {
  timeline_->mark_cycle();
  on_gpu_ = first.device != nullptr;
  captured_ = on_gpu_ && first.device->captured;
  if (on_gpu_) {
    hooks_.arrived = [] {};
    hooks_.agreed = [this] { enter({}); };
    return enter(TimelinePhase::negotiate);
  }
  hooks_.arrived = [this] {
    if (phase_ == TimelinePhase::copy_in) enter(TimelinePhase::negotiate);
  };
  hooks_.agreed = [this] {
    if (phase_ == TimelinePhase::negotiate) enter(TimelinePhase::reduce);
  };
  enter(TimelinePhase::copy_in);
}

void BatchTimeline::enter(std::optional<TimelinePhase> phase) {
  if (timeline_ == nullptr) return;
  for (const auto& [lane, op] : lanes_) {
    if (phase_) timeline_->end(lane, *phase_, op);
    if (phase) timeline_->begin(lane, *phase, op);
  }
  phase_ = phase;
}

std::string BatchTimeline::lane_of(const Operation& operation, std::uint64_t name,
                                   const std::string& suffix) {
  if (!operation.name.empty()) return operation.name + suffix;
  return std::string(name_of(operation.kind)) + ".noname." + std::to_string(name & ~kUnnamed) +
         suffix;
}

TimelineOp BatchTimeline::op_of(const Operation& operation) {
  switch (operation.kind) {
    case OpKind::allreduce:
      return operation.reduction.op == hvd::ReduceOp::adasum ? TimelineOp::adasum
                                                             : TimelineOp::allreduce;
    case OpKind::broadcast:
      return TimelineOp::broadcast;
    case OpKind::allgather:
      return TimelineOp::allgather;
    case OpKind::reducescatter:
      return TimelineOp::reducescatter;
    case OpKind::alltoall:
      return TimelineOp::alltoall;
    case OpKind::barrier:
      return TimelineOp::barrier;
  }
  return TimelineOp::none;
}

}  // namespace hvdrun
