// The functions of <hvd/hvd.h>.
#include <atomic>
#include <cstdint>
#include <memory>
#include <pthread.h>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "common/mutex.h"
#include "worker/api/allocation.h"
#include "worker/api/job.h"

namespace {

using hvdrun::Job;
using hvdrun::Operation;
using hvdrun::OpKind;

// The one global of the library: never destroyed at exit, where other threads may still run and a
// goodbye would hide that the program ended without hvd::shutdown(). The end of the process closes
// the line.
std::atomic<Job*> g_job{nullptr};
std::uint32_t g_generation = 0;  // guarded by g_init
hvdrun::Mutex g_init;

Job& job() {
  Job* current = g_job.load(std::memory_order_acquire);
  if (current == nullptr) {
    throw hvd::Error(hvd::ErrorCode::not_initialized,
                     "hvd::init() has not been called in this process (a child of fork() has to "
                     "leave the job to its parent)");
  }
  return *current;
}

// A forked child has none of the library's threads, and the job is its parent's: forget it. The
// memory is leaked on purpose, as its destructor would speak to the agent.
void forget_in_child() noexcept {
  Job* const parents = g_job.exchange(nullptr, std::memory_order_acq_rel);
  if (parents != nullptr) parents->abandon_in_child();
}

Operation reduction(OpKind kind, const void* input, void* output, std::size_t count,
                    hvd::DataType type, hvd::ReduceOp op, const hvd::ScaleFactors& scale) {
  return {kind, input, output, count, {type, op, scale.prescale, scale.postscale}};
}

Operation movement(OpKind kind, const void* input, void* output, std::size_t count,
                   hvd::DataType type, int root = 0) {
  return {kind, input, output, count, {type}, root};
}

std::vector<std::size_t> counts_of(const std::size_t* counts, const char* what) {
  if (counts == nullptr)
    throw hvd::Error(hvd::ErrorCode::invalid_argument, std::string(what) + ": the counts are null");
  return {counts, counts + job().place().size};
}

Operation allgatherv_operation(const void* input, void* output, const std::size_t* counts,
                               hvd::DataType type) {
  Operation operation = movement(OpKind::allgather, input, output, 0, type);
  operation.counts = counts_of(counts, "allgatherv");
  return operation;
}

Operation reducescatterv_operation(const void* input, void* output, const std::size_t* counts,
                                   hvd::DataType type, hvd::ReduceOp op,
                                   const hvd::ScaleFactors& scale) {
  Operation operation = reduction(OpKind::reducescatter, input, output, 0, type, op, scale);
  operation.counts = counts_of(counts, "reducescatterv");
  return operation;
}

Operation alltoallv_operation(const void* input, const std::size_t* send_counts, void* output,
                              const std::size_t* receive_counts, hvd::DataType type) {
  Operation operation = movement(OpKind::alltoall, input, output, 0, type);
  operation.counts = counts_of(send_counts, "alltoallv");
  operation.receive_counts = counts_of(receive_counts, "alltoallv");
  return operation;
}

}  // namespace

namespace hvd {

void init(const InitOptions& options) {
  const hvdrun::MutexLock lock(g_init);
  if (g_job.load(std::memory_order_acquire) != nullptr) return;
  static const int registered = ::pthread_atfork(nullptr, nullptr, forget_in_child);
  if (registered != 0) throw Error(ErrorCode::internal, "pthread_atfork failed");
  auto made = std::make_unique<Job>(hvdrun::process_environment, options, g_generation);
  ++g_generation;
  g_job.store(made.release(), std::memory_order_release);
}

void shutdown() noexcept {
  const hvdrun::MutexLock lock(g_init);
  delete g_job.exchange(nullptr, std::memory_order_acq_rel);
}

bool is_initialized() noexcept { return g_job.load(std::memory_order_acquire) != nullptr; }

int rank() { return job().place().rank; }
int size() { return job().place().size; }
int local_rank() { return job().place().local_rank; }
int local_size() { return job().place().local_size; }
int cross_rank() { return job().place().cross_rank; }
int cross_size() { return job().place().cross_size; }

void* alloc(std::size_t bytes) {
  Job* const current = g_job.load(std::memory_order_acquire);
  return hvdrun::allocate(bytes, current != nullptr ? current->memory() : nullptr);
}

void free(void* memory) { hvdrun::deallocate(memory); }

void allreduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
               const ScaleFactors& scale) {
  job().engine().run(reduction(OpKind::allreduce, input, output, count, type, op, scale));
}

Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                       ReduceOp op, const ScaleFactors& scale) {
  return {
      job().engine().submit(reduction(OpKind::allreduce, input, output, count, type, op, scale))};
}

void broadcast(void* data, std::size_t count, DataType type, int root) {
  job().engine().run(movement(OpKind::broadcast, data, data, count, type, root));
}

Handle broadcast_async(void* data, std::size_t count, DataType type, int root) {
  return {job().engine().submit(movement(OpKind::broadcast, data, data, count, type, root))};
}

void allgather(const void* input, void* output, std::size_t count, DataType type) {
  job().engine().run(movement(OpKind::allgather, input, output, count, type));
}

Handle allgather_async(const void* input, void* output, std::size_t count, DataType type) {
  return {job().engine().submit(movement(OpKind::allgather, input, output, count, type))};
}

void allgatherv(const void* input, void* output, const std::size_t* counts, DataType type) {
  job().engine().run(allgatherv_operation(input, output, counts, type));
}

Handle allgatherv_async(const void* input, void* output, const std::size_t* counts, DataType type) {
  return {job().engine().submit(allgatherv_operation(input, output, counts, type))};
}

void reducescatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                   const ScaleFactors& scale) {
  job().engine().run(reduction(OpKind::reducescatter, input, output, count, type, op, scale));
}

Handle reducescatter_async(const void* input, void* output, std::size_t count, DataType type,
                           ReduceOp op, const ScaleFactors& scale) {
  return {job().engine().submit(
      reduction(OpKind::reducescatter, input, output, count, type, op, scale))};
}

void reducescatterv(const void* input, void* output, const std::size_t* counts, DataType type,
                    ReduceOp op, const ScaleFactors& scale) {
  job().engine().run(reducescatterv_operation(input, output, counts, type, op, scale));
}

Handle reducescatterv_async(const void* input, void* output, const std::size_t* counts,
                            DataType type, ReduceOp op, const ScaleFactors& scale) {
  return {job().engine().submit(reducescatterv_operation(input, output, counts, type, op, scale))};
}

void alltoall(const void* input, void* output, std::size_t count, DataType type) {
  job().engine().run(movement(OpKind::alltoall, input, output, count, type));
}

Handle alltoall_async(const void* input, void* output, std::size_t count, DataType type) {
  return {job().engine().submit(movement(OpKind::alltoall, input, output, count, type))};
}

void alltoallv(const void* input, const std::size_t* send_counts, void* output,
               const std::size_t* receive_counts, DataType type) {
  job().engine().run(alltoallv_operation(input, send_counts, output, receive_counts, type));
}

Handle alltoallv_async(const void* input, const std::size_t* send_counts, void* output,
                       const std::size_t* receive_counts, DataType type) {
  return {
      job().engine().submit(alltoallv_operation(input, send_counts, output, receive_counts, type))};
}

void barrier() { job().engine().run(Operation{}); }

Handle barrier_async() { return {job().engine().submit(Operation{})}; }

bool poll(Handle handle) { return job().engine().poll(handle.id); }

bool wait(Handle handle, std::chrono::milliseconds limit) {
  return job().engine().wait(handle.id, limit);
}

void synchronize(Handle handle) { job().engine().synchronize(handle.id); }

}  // namespace hvd
