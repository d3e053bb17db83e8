// The functions of <hvd/hvd.h> that do something with data. Those about the job are in place.cpp.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/api/allocation.h"
#include "worker/hvd/api/library_job.h"
#include "worker/hvd/engine/device_use.h"

namespace {

using hvdrun::library_job;
using hvdrun::Operation;
using hvdrun::OpKind;
using hvdrun::WorkerJob;

// Null: nothing is recorded.
hvdrun::Timeline* recording_timeline() noexcept {
  WorkerJob* const current = hvdrun::current_job();
  hvdrun::Timeline* const timeline = current != nullptr ? current->timeline() : nullptr;
  return timeline != nullptr && timeline->on() ? timeline : nullptr;
}

hvdrun::TimelinePhase phase_of(hvd::Activity activity) {
  switch (activity) {
    case hvd::Activity::data:
      return hvdrun::TimelinePhase::data;
    case hvd::Activity::forward:
      return hvdrun::TimelinePhase::forward;
    case hvd::Activity::backward:
      return hvdrun::TimelinePhase::backward;
    case hvd::Activity::synchronize:
      return hvdrun::TimelinePhase::synchronize;
    case hvd::Activity::step:
      break;
  }
  return hvdrun::TimelinePhase::step;
}

// Where an operation runs, and its set, which lives as long.
struct Target {
  std::shared_ptr<hvdrun::RankSet> set;
  hvdrun::Engine& engine() const { return *set->engine; }
  std::size_t size() const { return set->ranks.size(); }
};

Target target_of(const hvd::OperationOptions& options) {
  Target target{hvdrun::collective_job().sets().at(options.process_set.id)};
  if (!target.set->engine)
    throw hvd::Error(
        hvd::ErrorCode::invalid_argument,
        "rank " + std::to_string(library_job().place().rank) + " is not in " + target.set->text());
  return target;
}

Operation plain(OpKind kind, const hvd::OperationOptions& options) {
  Operation operation;
  operation.kind = kind;
  operation.name = options.name;
  operation.shape = options.shape;
  operation.description = options.description;
  if (options.device == hvd::Device::cpu || kind == OpKind::barrier) return operation;
  operation.device = std::make_shared<hvdrun::DeviceUse>();
  operation.device->stream = static_cast<hvdrun::cuda::Stream>(options.stream);
  return operation;
}

Operation reduction(OpKind kind, const void* input, void* output, std::size_t count,
                    hvd::DataType type, hvd::ReduceOp op, const hvd::ScaleFactors& scale,
                    const hvd::OperationOptions& options) {
  Operation operation = plain(kind, options);
  operation.input = input;
  operation.output = output;
  operation.count = count;
  operation.reduction = {type, op, scale.prescale, scale.postscale};
  return operation;
}

Operation movement(OpKind kind, const void* input, void* output, std::size_t count,
                   hvd::DataType type, const hvd::OperationOptions& options) {
  return reduction(kind, input, output, count, type, hvd::ReduceOp::sum, {}, options);
}

Operation broadcasting(void* data, std::size_t count, hvd::DataType type, int root,
                       const Target& target, const hvd::OperationOptions& options) {
  Operation operation = movement(OpKind::broadcast, data, data, count, type, options);
  operation.root = root;
  if (target.set->id == 0) return operation;
  if (!target.set->includes(root))
    throw hvd::Error(hvd::ErrorCode::invalid_argument, "broadcast: root " + std::to_string(root) +
                                                           " is not in " + target.set->text());
  operation.root = target.set->place_of(root);
  operation.root_name = root;
  return operation;
}

std::vector<std::size_t> counts_of(const std::size_t* counts, const Target& target,
                                   const char* what) {
  if (counts == nullptr)
    throw hvd::Error(hvd::ErrorCode::invalid_argument, std::string(what) + ": the counts are null");
  return {counts, counts + target.size()};
}

Operation grouped(const std::vector<hvd::Buffer>& buffers, hvd::DataType type, hvd::ReduceOp op,
                  const hvd::ScaleFactors& scale, const hvd::OperationOptions& options) {
  Operation operation = reduction(OpKind::allreduce, nullptr, nullptr, 0, type, op, scale, options);
  for (const hvd::Buffer& buffer : buffers)
    operation.parts.push_back({buffer.input, buffer.output, buffer.count});
  return operation;
}

Operation allgatherv_operation(const void* input, void* output, const std::size_t* counts,
                               hvd::DataType type, const Target& target,
                               const hvd::OperationOptions& options) {
  Operation operation = movement(OpKind::allgather, input, output, 0, type, options);
  operation.counts = counts_of(counts, target, "allgatherv");
  operation.varying_counts = options.varying_counts;
  return operation;
}

Operation reducescatterv_operation(const void* input, void* output, const std::size_t* counts,
                                   hvd::DataType type, hvd::ReduceOp op,
                                   const hvd::ScaleFactors& scale, const Target& target,
                                   const hvd::OperationOptions& options) {
  Operation operation =
      reduction(OpKind::reducescatter, input, output, 0, type, op, scale, options);
  operation.counts = counts_of(counts, target, "reducescatterv");
  operation.varying_counts = options.varying_counts;
  return operation;
}

Operation alltoallv_operation(const void* input, const std::size_t* send_counts, void* output,
                              const std::size_t* receive_counts, hvd::DataType type,
                              const Target& target, const hvd::OperationOptions& options) {
  Operation operation = movement(OpKind::alltoall, input, output, 0, type, options);
  operation.counts = counts_of(send_counts, target, "alltoallv");
  operation.receive_counts = counts_of(receive_counts, target, "alltoallv");
  return operation;
}

hvd::Handle submit(const Target& target, const Operation& operation) {
  return {target.engine().submit(operation), target.set->id};
}

hvdrun::Engine& engine_of(const hvd::Handle& handle) {
  const auto set = library_job().sets().at(handle.process_set);
  if (!set->engine)
    throw hvd::Error(hvd::ErrorCode::invalid_argument, "this rank is not in " + set->text());
  return *set->engine;
}

}  // namespace

namespace hvd {

void* alloc(std::size_t bytes) {
  const WorkerJob* const current = hvdrun::current_job();
  return hvdrun::allocate(bytes, current != nullptr ? current->memory() : nullptr);
}

void free(void* memory) { hvdrun::deallocate(memory); }

void allreduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
               const ScaleFactors& scale, const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(reduction(OpKind::allreduce, input, output, count, type, op, scale, options));
}

Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                       ReduceOp op, const ScaleFactors& scale, const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target,
                reduction(OpKind::allreduce, input, output, count, type, op, scale, options));
}

void broadcast(void* data, std::size_t count, DataType type, int root,
               const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(broadcasting(data, count, type, root, target, options));
}

Handle broadcast_async(void* data, std::size_t count, DataType type, int root,
                       const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target, broadcasting(data, count, type, root, target, options));
}

void allgather(const void* input, void* output, std::size_t count, DataType type,
               const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(movement(OpKind::allgather, input, output, count, type, options));
}

Handle allgather_async(const void* input, void* output, std::size_t count, DataType type,
                       const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target, movement(OpKind::allgather, input, output, count, type, options));
}

void allgatherv(const void* input, void* output, const std::size_t* counts, DataType type,
                const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(allgatherv_operation(input, output, counts, type, target, options));
}

Handle allgatherv_async(const void* input, void* output, const std::size_t* counts, DataType type,
                        const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target, allgatherv_operation(input, output, counts, type, target, options));
}

void reducescatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                   const ScaleFactors& scale, const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(
      reduction(OpKind::reducescatter, input, output, count, type, op, scale, options));
}

Handle reducescatter_async(const void* input, void* output, std::size_t count, DataType type,
                           ReduceOp op, const ScaleFactors& scale,
                           const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target,
                reduction(OpKind::reducescatter, input, output, count, type, op, scale, options));
}

void reducescatterv(const void* input, void* output, const std::size_t* counts, DataType type,
                    ReduceOp op, const ScaleFactors& scale, const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(
      reducescatterv_operation(input, output, counts, type, op, scale, target, options));
}

Handle reducescatterv_async(const void* input, void* output, const std::size_t* counts,
                            DataType type, ReduceOp op, const ScaleFactors& scale,
                            const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target,
                reducescatterv_operation(input, output, counts, type, op, scale, target, options));
}

void alltoall(const void* input, void* output, std::size_t count, DataType type,
              const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(movement(OpKind::alltoall, input, output, count, type, options));
}

Handle alltoall_async(const void* input, void* output, std::size_t count, DataType type,
                      const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target, movement(OpKind::alltoall, input, output, count, type, options));
}

void alltoallv(const void* input, const std::size_t* send_counts, void* output,
               const std::size_t* receive_counts, DataType type, const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(
      alltoallv_operation(input, send_counts, output, receive_counts, type, target, options));
}

Handle alltoallv_async(const void* input, const std::size_t* send_counts, void* output,
                       const std::size_t* receive_counts, DataType type,
                       const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target, alltoallv_operation(input, send_counts, output, receive_counts, type,
                                            target, options));
}

void grouped_allreduce(const std::vector<Buffer>& buffers, DataType type, ReduceOp op,
                       const ScaleFactors& scale, const OperationOptions& options) {
  const Target target = target_of(options);
  target.engine().run(grouped(buffers, type, op, scale, options));
}

Handle grouped_allreduce_async(const std::vector<Buffer>& buffers, DataType type, ReduceOp op,
                               const ScaleFactors& scale, const OperationOptions& options) {
  const Target target = target_of(options);
  return submit(target, grouped(buffers, type, op, scale, options));
}

void barrier(const OperationOptions& options) {
  target_of(options).engine().run(plain(OpKind::barrier, options));
}

Handle barrier_async(const OperationOptions& options) {
  return submit(target_of(options), plain(OpKind::barrier, options));
}

int join() { return hvdrun::collective_job().sets().world().join(); }

ProcessSet add_process_set(const std::vector<int>& ranks, const std::string& name) {
  return {hvdrun::collective_job().sets().add(ranks, name)};
}
void remove_process_set(const ProcessSet& set) { hvdrun::collective_job().sets().remove(set.id); }
ProcessSet process_set(const std::string& name) { return {library_job().sets().named(name)->id}; }
std::vector<ProcessSet> process_sets() {
  std::vector<ProcessSet> sets;
  for (const int id : library_job().sets().ids()) sets.push_back({id});
  return sets;
}
std::string process_set_name(const ProcessSet& set) {
  return library_job().sets().at(set.id)->name;
}
std::vector<int> process_set_ranks(const ProcessSet& set) {
  return library_job().sets().at(set.id)->ranks;
}
int process_set_rank(const ProcessSet& set) { return library_job().sets().at(set.id)->place; }

Statistics statistics() {
  const hvdrun::EngineStatistics engine = library_job().sets().world().statistics();
  return {engine.operations, engine.batches, engine.negotiations};
}

void start_timeline(const std::string& path, bool mark_cycles) {
  library_job().start_timeline(path, mark_cycles);
}
void stop_timeline() { library_job().stop_timeline(); }

bool timeline_is_on() noexcept { return recording_timeline() != nullptr; }
void timeline_begin(const std::string& lane, Activity activity) noexcept {
  if (hvdrun::Timeline* timeline = recording_timeline()) timeline->begin(lane, phase_of(activity));
}
void timeline_end(const std::string& lane, Activity activity) noexcept {
  if (hvdrun::Timeline* timeline = recording_timeline()) timeline->end(lane, phase_of(activity));
}

bool poll(Handle handle) { return engine_of(handle).poll(handle.id); }

bool wait(Handle handle, std::chrono::milliseconds limit) {
  return engine_of(handle).wait(handle.id, limit);
}

void then(Handle handle, std::function<void()> body) {
  engine_of(handle).then(handle.id, std::move(body));
}

void synchronize(Handle handle) { engine_of(handle).synchronize(handle.id); }

}  // namespace hvd
