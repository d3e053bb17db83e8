// The call of the communicator's function, or the GPU's, that an operation or a batch stands for.
#include <vector>

#include "worker/hvd/comm/adasum.h"
#include "worker/hvd/engine/batch_timeline.h"
#include "worker/hvd/engine/engine.h"

namespace hvdrun {
namespace {

// Each buffer is a tensor of its own.
void perform_adasum(const Operation& operation, Communicator& communicator,
                    const CallOptions& options) {
  if (!operation.parts.empty())
    return adasum(communicator, operation.parts, operation.reduction, options);
  adasum(communicator, {{operation.input, operation.output, operation.count}}, operation.reduction,
         options);
}

void perform(const Operation& operation, Communicator& communicator, const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto with_counts = [&](const auto& run) {
    if (!operation.counts.empty()) return run(operation.counts.data());
    const std::vector<std::size_t> counts(ranks, operation.count);
    return run(counts.data());
  };
  switch (operation.kind) {
    case OpKind::barrier:
      return communicator.barrier(options);
    case OpKind::allreduce:
      if (operation.reduction.op == hvd::ReduceOp::adasum)
        return perform_adasum(operation, communicator, options);
      if (!operation.parts.empty())
        return communicator.grouped_allreduce(operation.parts, operation.reduction, options);
      return communicator.allreduce(operation.input, operation.output, operation.count,
                                    operation.reduction, options);
    case OpKind::broadcast:
      return communicator.broadcast(operation.output, operation.count, operation.reduction.type,
                                    operation.root, options);
    case OpKind::allgather:
      return with_counts([&](const std::size_t* counts) {
        communicator.allgather(operation.input, operation.output, counts, operation.reduction.type,
                               options);
      });
    case OpKind::reducescatter:
      return with_counts([&](const std::size_t* counts) {
        communicator.reducescatter(operation.input, operation.output, counts, operation.reduction,
                                   options);
      });
    case OpKind::alltoall:
      return with_counts([&](const std::size_t* counts) {
        communicator.alltoall(
            operation.input, counts, operation.output,
            operation.receive_counts.empty() ? counts : operation.receive_counts.data(),
            operation.reduction.type, options);
      });
  }
}

}  // namespace

CallOptions Engine::call(std::uint64_t fingerprint, bool may_spin) const {
  CallOptions options{
      .timeout = options_.timeout, .may_spin = may_spin, .fingerprint = fingerprint};
  if (options_.stall_after.count() > 0) options.watch = &watch_;
  return options;
}

void Engine::perform(const Operation& operation, const Scheduler::Direct& direct, bool may_spin) {
  CallOptions options = call(direct.fingerprint, may_spin);
  const BatchTimeline timeline(options_.timeline, options_.timeline_suffix, operation,
                               direct.member.name);
  options.hooks = timeline.hooks();
  if (operation.device) return gpu_->perform({&operation}, options, timeline.on_gpu());
  hvdrun::perform(operation, *communicator_, options);
}

void Engine::perform(const Entries& batch, bool may_spin) {
  const Operation& first = batch.front()->operation;
  CallOptions options = call(Scheduler::fingerprint(batch), may_spin);
  const BatchTimeline timeline(options_.timeline, options_.timeline_suffix, batch);
  options.hooks = timeline.hooks();
  if (first.device) {
    std::vector<const Operation*> operations;
    operations.reserve(batch.size());
    for (const auto& entry : batch) operations.push_back(&entry->operation);
    return gpu_->perform(operations, options, timeline.on_gpu());
  }
  if (batch.size() == 1) return hvdrun::perform(first, *communicator_, options);
  std::vector<BufferPart> parts;
  parts.reserve(batch.size());
  for (const auto& entry : batch) {
    const Operation& operation = entry->operation;
    if (operation.parts.empty())
      parts.push_back({operation.input, operation.output, operation.count});
    else
      parts.insert(parts.end(), operation.parts.begin(), operation.parts.end());
  }
  communicator_->grouped_allreduce(parts, first.reduction, options);
}

}  // namespace hvdrun
