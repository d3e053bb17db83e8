// An engine runs what has been decided, an operation or a batch of them, to its end: it performs
// the function of the communicator, or of the GPU, that this stands for.
#include <chrono>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "worker/hvd/comm/adasum.h"
#include "worker/hvd/engine/batch_timeline.h"
#include "worker/hvd/engine/engine.h"
#include "worker/hvd/engine/failure.h"
#include "worker/hvd/engine/operation_check.h"

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

// Whoever has occupied the communicator in run() lets it go with this.
struct Engine::Running {
  explicit Running(Engine& of) : engine(of) {}
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
  ~Running() {
    const MutexLock lock(engine.mutex_);
    engine.occupancy_ = Occupancy::free;
    engine.submissions_.end_direct();
    if (engine.scheduler_.idle() && !engine.stopping_) return;
    // Others may have submitted meanwhile, and shutdown() waits for us with nothing pending.
    if (!engine.scheduler_.idle()) engine.start_thread();
    engine.work_.notify_all();
  }
  Engine& engine;
};

void Engine::run(const Operation& operation) {
  check(operation, *communicator_);
  if (operation.device) begin_on_gpu(operation);
  Scheduler::Direct direct = Scheduler::look_at(operation);
  bool may_spin = false;
  {
    const MutexLock lock(mutex_);
    check_open();
    submissions_.note(operation, Clock::now());
    may_spin = options_.share.fits(has_thread_ ? 1 : 0);
    if (occupancy_ != Occupancy::free || !scheduler_.idle()) {
      const std::shared_ptr<Entry> entry = enqueue(operation);
      wait_done(*entry);
      if (entry->error) throw_copy(*entry->error);
      return order_on_gpu(operation);
    }
    scheduler_.begin(direct);
    occupancy_ = Occupancy::working;
    submissions_.begin_direct(operation);
  }
  const Running running(*this);
  const auto failed = [&] {
    const MutexLock lock(mutex_);
    scheduler_.failed(direct);
  };
  std::shared_ptr<Entry> entry;
  try {
    perform(operation, direct, may_spin);
    order_on_gpu(operation);
    const MutexLock lock(mutex_);
    scheduler_.ran(direct);
    ++statistics_.operations;
    ++statistics_.batches;
    return;
  } catch (const Differs&) {
    const MutexLock lock(mutex_);
    submissions_.end_direct();
    entry = scheduler_.add(operation, direct, Clock::now());
    scheduler_.must_negotiate();
  } catch (const hvd::Error& error) {
    failed();
    throw hvd::Error(tell_failed(operation, error));
  } catch (const std::exception& trouble) {
    failed();
    throw hvd::Error(tell_failed(operation, tell_others(trouble)));
  }
  drive(entry.get(), may_spin);
  if (entry->error) throw_copy(*entry->error);
  order_on_gpu(operation);
}

// One that has failed in the communicator has failed on all ranks.
void Engine::run(const Entries& batch, bool may_spin, Agreed agreed) {
  const Operation& first = batch.front()->operation;
  std::shared_ptr<const hvd::Error> failure;
  try {
    perform(batch, may_spin);
  } catch (const Differs&) {
    if (agreed == Agreed::no) {
      const MutexLock lock(mutex_);
      scheduler_.must_negotiate();
      return;
    }
    // In nothing but counts that vary, and would in each negotiation.
    failure = failure_of(tell_failed(difference_in(first)));
  } catch (const hvd::Error& error) {
    failure = failure_of(tell_failed(first, error));
  } catch (const std::exception& trouble) {
    failure = failure_of(tell_failed(first, tell_others(trouble)));
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
  occupancy_ = Occupancy::free;
  tenure_ = Tenure::over;
}

}  // namespace hvdrun
