#include "tests/unit/torch/fake_collectives.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>

namespace hvdrun::test {

FakeJob& fake_job() {
  static FakeJob job;
  return job;
}

void reset_fake_job(int size) {
  fake_job() = FakeJob{};
  fake_job().size = size;
}

namespace {

template <class T>
void scale(void* data, std::size_t count, double factor) {
  auto* values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(static_cast<double>(values[i]) * factor);
  }
}

void scale(void* data, std::size_t count, hvd::DataType type, double factor) {
  switch (type) {
    case hvd::DataType::int32:
      return scale<std::int32_t>(data, count, factor);
    case hvd::DataType::int64:
      return scale<std::int64_t>(data, count, factor);
    case hvd::DataType::float32:
      return scale<float>(data, count, factor);
    case hvd::DataType::float64:
      return scale<double>(data, count, factor);
    default:
      throw std::logic_error("a type that this fake does not know");
  }
}

double factor(hvd::ReduceOp op) {
  const FakeJob& job = fake_job();
  return op == hvd::ReduceOp::average ? job.average() : job.average() * job.size;
}

}  // namespace
}  // namespace hvdrun::test

namespace hvd {

using hvdrun::test::fake_job;

int rank() { return 0; }
int size() { return fake_job().size; }

void* alloc(std::size_t bytes) {
  const std::size_t rounded = (bytes / 4096 + 1) * 4096;
  void* const memory = std::aligned_alloc(4096, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return std::memset(memory, 0, rounded);
}
void free(void* memory) { std::free(memory); }

void allreduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
               const ScaleFactors& scale) {
  synchronize(allreduce_async(input, output, count, type, op, scale));
}

// From another rank come our values times (root + 1).
void broadcast(void* data, std::size_t count, DataType type, int root) {
  hvdrun::test::scale(data, count, type, root + 1);
}

void allgather(const void* input, void* output, std::size_t count, DataType type) {
  const std::size_t bytes = count * size_of(type);
  for (int rank = 0; rank < size(); ++rank) {
    char* part = static_cast<char*>(output) + bytes * static_cast<std::size_t>(rank);
    if (bytes != 0) std::memcpy(part, input, bytes);  // empty tensors have no memory
    if (type != DataType::int64 || !fake_job().peers) continue;
    auto* values = reinterpret_cast<std::int64_t*>(part);
    for (std::size_t i = 0; i < count; ++i) values[i] = fake_job().peers(rank, i, values[i]);
  }
}

Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                       ReduceOp op, const ScaleFactors& /*scale*/) {
  if (input != output && count != 0) std::memcpy(output, input, count * size_of(type));
  fake_job().calls.push_back({output, count, type, op, false});
  return Handle{fake_job().calls.size()};
}

void synchronize(Handle handle) {
  auto& call = fake_job().calls.at(handle.id - 1);
  if (call.waited_for) throw Error(ErrorCode::invalid_argument, "handle used twice");
  call.waited_for = true;
  if (fake_job().failing_call == handle.id - 1) throw Error(ErrorCode::peer_lost, "rank 2 is gone");
  hvdrun::test::scale(call.data, call.count, call.type, hvdrun::test::factor(call.op));
}

}  // namespace hvd
