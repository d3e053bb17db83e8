// How an engine runs what has been decided: an operation or a batch of them, in the communicator or
// on the GPU.
#include <exception>
#include <string>
#include <vector>

#include "worker/hvd/engine/batch_timeline.h"
#include "worker/hvd/engine/engine.h"

namespace hvdrun {

void Engine::run_direct(const Operation& operation, const Scheduler::Direct& direct,
                        bool may_spin) {
  CallOptions options = call(direct.fingerprint, may_spin);
  const BatchTimeline timeline(options_.timeline, options_.timeline_suffix, operation,
                               direct.member.name);
  options.hooks = timeline.hooks();
  if (operation.device) return gpu_->perform({&operation}, options, timeline.on_gpu());
  execute(operation, *communicator_, options);
}

// One that has failed in the communicator has failed on all ranks.
void Engine::run_batch(const Entries& batch, bool may_spin, Agreed agreed) {
  std::shared_ptr<const hvd::Error> failure;
  try {
    CallOptions options = call(Scheduler::fingerprint(batch), may_spin);
    const BatchTimeline timeline(options_.timeline, options_.timeline_suffix, batch);
    options.hooks = timeline.hooks();
    execute_batch(batch, options, timeline);
  } catch (const Differs&) {
    if (agreed == Agreed::no) {
      const MutexLock lock(mutex_);
      scheduler_.must_negotiate();
      return;
    }
    // In nothing but counts that vary, and would in each negotiation.
    const hvd::Error named = difference_in(batch.front()->operation);
    if (options_.on_failed) options_.on_failed(named);
    failure = failure_of(named);
  } catch (const hvd::Error& error) {
    const hvd::Error named = name_error(batch.front()->operation, error);
    if (options_.on_failed) options_.on_failed(named);
    failure = failure_of(named);
  } catch (const std::exception& trouble) {
    const hvd::Error named = name_error(batch.front()->operation, tell_others(trouble));
    if (options_.on_failed) options_.on_failed(named);
    failure = failure_of(named);
  }
  const MutexLock lock(mutex_);
  if (!failure) {
    scheduler_.ran(batch);
    statistics_.operations += batch.size();
    ++statistics_.batches;
  }
  for (const auto& entry : batch) finish(entry, failure);
  // At once: whoever waited for it may call the next operation on a thread of its own.
  if (std::this_thread::get_id() != thread_.get_id() || !scheduler_.idle()) return;
  running_ = false;
  released_ = true;
}

void Engine::execute_batch(const Entries& batch, const CallOptions& options,
                           const BatchTimeline& timeline) {
  if (batch.front()->operation.device) {
    std::vector<const Operation*> operations;
    operations.reserve(batch.size());
    for (const auto& entry : batch) operations.push_back(&entry->operation);
    return gpu_->perform(operations, options, timeline.on_gpu());
  }
  if (batch.size() == 1) return execute(batch.front()->operation, *communicator_, options);
  std::vector<BufferPart> parts;
  parts.reserve(batch.size());
  for (const auto& entry : batch) {
    const Operation& operation = entry->operation;
    if (operation.parts.empty())
      parts.push_back({operation.input, operation.output, operation.count});
    else
      parts.insert(parts.end(), operation.parts.begin(), operation.parts.end());
  }
  communicator_->grouped_allreduce(parts, batch.front()->operation.reduction, options);
}

}  // namespace hvdrun
