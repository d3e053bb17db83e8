// The functions of <hvd/hvd.h>.
#include <atomic>
#include <cstdint>
#include <memory>
#include <pthread.h>
#include <string>

#include <hvd/hvd.h>

#include "common/mutex.h"
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

Operation allreduce_operation(const void* input, void* output, std::size_t count,
                              hvd::DataType type, hvd::ReduceOp op) {
  return {OpKind::allreduce, input, output, count, type, op, 0};
}

Operation broadcast_operation(void* data, std::size_t count, hvd::DataType type, int root) {
  return {OpKind::broadcast, data, data, count, type, hvd::ReduceOp::sum, root};
}

Operation allgather_operation(const void* input, void* output, std::size_t count,
                              hvd::DataType type) {
  return {OpKind::allgather, input, output, count, type, hvd::ReduceOp::sum, 0};
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

std::size_t size_of(DataType type) {
  const std::size_t size = hvdrun::element_size(type);
  if (size == 0) {
    throw Error(ErrorCode::invalid_argument,
                "unknown data type " + std::to_string(static_cast<unsigned>(type)));
  }
  return size;
}

void allreduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op) {
  job().engine().run(allreduce_operation(input, output, count, type, op));
}

void broadcast(void* data, std::size_t count, DataType type, int root) {
  job().engine().run(broadcast_operation(data, count, type, root));
}

void allgather(const void* input, void* output, std::size_t count, DataType type) {
  job().engine().run(allgather_operation(input, output, count, type));
}

void barrier() { job().engine().run(Operation{}); }

Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                       ReduceOp op) {
  return {job().engine().submit(allreduce_operation(input, output, count, type, op))};
}

Handle broadcast_async(void* data, std::size_t count, DataType type, int root) {
  return {job().engine().submit(broadcast_operation(data, count, type, root))};
}

Handle allgather_async(const void* input, void* output, std::size_t count, DataType type) {
  return {job().engine().submit(allgather_operation(input, output, count, type))};
}

bool poll(Handle handle) { return job().engine().poll(handle.id); }

void synchronize(Handle handle) { job().engine().synchronize(handle.id); }

}  // namespace hvd
