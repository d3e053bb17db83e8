#include "tests/unit/worker/hvd/torch/fake_collectives.h"

#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

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
T scaled(T value, double factor) {
  if constexpr (std::is_arithmetic_v<T>) return static_cast<T>(static_cast<double>(value) * factor);
  return static_cast<T>(static_cast<float>(value) * static_cast<float>(factor));
}

template <class T>
void scale(void* data, std::size_t count, double factor) {
  auto* values = static_cast<T*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = scaled(values[i], factor);
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
    case hvd::DataType::float16:
      return scale<c10::Half>(data, count, factor);
    case hvd::DataType::bfloat16:
      return scale<c10::BFloat16>(data, count, factor);
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

int rank() { return fake_job().rank; }
bool is_initialized() noexcept { return true; }
void shutdown() noexcept {}
void init(const InitOptions& /*options*/) {
  ++fake_job().inits;
  if (fake_job().size_after > 0) fake_job().size = fake_job().size_after;
}
int size() { return fake_job().size; }
}  // namespace hvd
namespace hvdrun {
bool came_late() noexcept { return false; }
}  // namespace hvdrun
namespace hvd {
namespace elastic {
bool is_elastic() noexcept { return false; }
bool meeting_wanted() noexcept { return false; }
void enter(const std::string& /*layout*/) {}
void require_gpu(const Error& /*reason*/) {}
void meet_again(const InitOptions& options) { init(options); }
}  // namespace elastic
int gpu() { return -1; }

void* alloc(std::size_t bytes) {
  const std::size_t rounded = (bytes / 4096 + 1) * 4096;
  void* const memory = std::aligned_alloc(4096, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  return std::memset(memory, 0, rounded);
}
void free(void* memory) { std::free(memory); }

void allreduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
               const ScaleFactors& scale, const OperationOptions& /*options*/) {
  synchronize(allreduce_async(input, output, count, type, op, scale));
}

// From another rank come our values times (root + 1).
void broadcast(void* data, std::size_t count, DataType type, int root,
               const OperationOptions& /*options*/) {
  hvdrun::test::scale(data, count, type, root + 1);
}

void allgather(const void* input, void* output, std::size_t count, DataType type,
               const OperationOptions& /*options*/) {
  const std::size_t bytes = count * size_of(type);
  const bool is_text = type == DataType::uint8 && fake_job().objects;
  for (int rank = 0; rank < size() && is_text; ++rank) {
    const std::string text = fake_job().objects(rank, static_cast<const char*>(input));
    std::memcpy(static_cast<char*>(output) + bytes * static_cast<std::size_t>(rank), text.c_str(),
                text.size() + 1);
  }
  if (is_text) return;
  for (int rank = 0; rank < size(); ++rank) {
    char* part = static_cast<char*>(output) + bytes * static_cast<std::size_t>(rank);
    if (bytes != 0) std::memcpy(part, input, bytes);  // empty tensors have no memory
    if (type != DataType::int64 || !fake_job().peers) continue;
    auto* values = reinterpret_cast<std::int64_t*>(part);
    for (std::size_t i = 0; i < count; ++i) values[i] = fake_job().peers(rank, i, values[i]);
  }
}

// Every rank has as much as it says, of our values from the begin on.
void allgatherv(const void* input, void* output, const std::size_t* counts, DataType type,
                const OperationOptions& /*options*/) {
  char* to = static_cast<char*>(output);
  for (int rank = 0; rank < size(); ++rank) {
    for (std::size_t i = 0; i < counts[rank]; ++i, to += size_of(type))
      std::memcpy(to, static_cast<const char*>(input) + i % counts[0] * size_of(type),
                  size_of(type));
  }
}

namespace {
// Done at once.
Handle done() {
  fake_job().calls.push_back({nullptr, 0, DataType::float32, ReduceOp::sum, {}, false});
  return Handle{fake_job().calls.size()};
}
}  // namespace

Handle allgather_async(const void* input, void* output, std::size_t count, DataType type,
                       const OperationOptions& options) {
  allgather(input, output, count, type, options);
  return done();
}
Handle allgatherv_async(const void* input, void* output, const std::size_t* counts, DataType type,
                        const OperationOptions& options) {
  allgatherv(input, output, counts, type, options);
  return done();
}
Handle reducescatterv_async(const void* input, void* output, const std::size_t* counts,
                            DataType type, ReduceOp op, const ScaleFactors& scale,
                            const OperationOptions& options) {
  reducescatterv(input, output, counts, type, op, scale, options);
  return done();
}
Handle alltoall_async(const void* input, void* output, std::size_t count, DataType type,
                      const OperationOptions& options) {
  alltoall(input, output, count, type, options);
  return done();
}
Handle alltoallv_async(const void* input, const std::size_t* send_counts, void* output,
                       const std::size_t* receive_counts, DataType type,
                       const OperationOptions& options) {
  alltoallv(input, send_counts, output, receive_counts, type, options);
  return done();
}
void then(Handle handle, std::function<void()> body) {
  if (!fake_job().late) return body();
  fake_job().late_thens.push_back(std::move(body));
  static_cast<void>(handle);
}

// The peers' rows are ours; real ranks show the rest.
void reducescatterv(const void* input, void* output, const std::size_t* counts, DataType type,
                    ReduceOp op, const ScaleFactors& /*scale*/,
                    const OperationOptions& /*options*/) {
  if (counts[0] == 0) return;
  std::memcpy(output, input, counts[0] * size_of(type));
  hvdrun::test::scale(output, counts[0], type, hvdrun::test::factor(op));
}
void alltoall(const void* input, void* output, std::size_t count, DataType type,
              const OperationOptions& /*options*/) {
  std::memcpy(output, input, count * size_of(type) * static_cast<std::size_t>(size()));
}
void alltoallv(const void* input, const std::size_t* send_counts, void* output,
               const std::size_t* /*receive_counts*/, DataType type,
               const OperationOptions& /*options*/) {
  std::size_t all = 0;
  for (int rank = 0; rank < size(); ++rank) all += send_counts[rank];
  if (all != 0) std::memcpy(output, input, all * size_of(type));
}
std::string broadcast_object(const std::string& bytes, int /*root*/,
                             const OperationOptions& /*options*/) {
  return bytes;
}
std::vector<std::string> allgather_object(const std::string& bytes,
                                          const OperationOptions& /*options*/) {
  std::vector<std::string> all;
  for (int rank = 0; rank < size(); ++rank)
    all.push_back(fake_job().objects ? fake_job().objects(rank, bytes) : bytes);
  return all;
}

std::vector<int> process_set_ranks(const ProcessSet& /*set*/) {
  std::vector<int> ranks(static_cast<std::size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}
int process_set_rank(const ProcessSet& /*set*/) { return 0; }
std::vector<ProcessSet> process_sets() { return {{}}; }
ProcessSet add_process_set(const std::vector<int>& /*ranks*/, const std::string& /*name*/) {
  return {1};
}
void remove_process_set(const ProcessSet& /*set*/) {}

void grouped_allreduce(const std::vector<Buffer>& buffers, DataType type, ReduceOp op,
                       const ScaleFactors& scale, const OperationOptions& /*options*/) {
  ++fake_job().groups;
  for (const Buffer& buffer : buffers)
    allreduce(buffer.input, buffer.output, buffer.count, type, op, scale);
}
// One handle for all of them: that of the last, the others are done at once.
Handle grouped_allreduce_async(const std::vector<Buffer>& buffers, DataType type, ReduceOp op,
                               const ScaleFactors& scale, const OperationOptions& /*options*/) {
  ++fake_job().groups;
  for (std::size_t i = 0; i + 1 < buffers.size(); ++i)
    allreduce(buffers[i].input, buffers[i].output, buffers[i].count, type, op, scale);
  const Buffer& last = buffers.back();
  return allreduce_async(last.input, last.output, last.count, type, op, scale);
}
Handle broadcast_async(void* data, std::size_t count, DataType type, int root,
                       const OperationOptions& /*options*/) {
  hvdrun::test::scale(data, count, type, root + 1);
  fake_job().calls.push_back({data, 0, type, ReduceOp::sum, {}, false});
  return Handle{fake_job().calls.size()};
}
bool timeline_is_on() noexcept { return fake_job().timeline_on; }
void timeline_begin(const std::string& lane, Activity activity) noexcept {
  fake_job().timeline.push_back(lane + " " + std::to_string(static_cast<int>(activity)) + " begin");
}
void timeline_end(const std::string& lane, Activity activity) noexcept {
  fake_job().timeline.push_back(lane + " " + std::to_string(static_cast<int>(activity)) + " end");
}
bool poll(Handle handle) { return fake_job().calls.at(handle.id - 1).waited_for; }
bool wait(Handle handle, std::chrono::milliseconds /*limit*/) { return poll(handle); }

Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                       ReduceOp op, const ScaleFactors& scale, const OperationOptions& options) {
  if (input != output && count != 0) std::memcpy(output, input, count * size_of(type));
  fake_job().calls.push_back({output, count, type, op, scale, false, options.name});
  return Handle{fake_job().calls.size()};
}

void synchronize(Handle handle) {
  auto& call = fake_job().calls.at(handle.id - 1);
  if (call.waited_for) throw Error(ErrorCode::invalid_argument, "handle used twice");
  call.waited_for = true;
  if (fake_job().failing_call == handle.id - 1) throw Error(ErrorCode::peer_lost, "rank 2 is gone");
  hvdrun::test::scale(call.data, call.count, call.type,
                      hvdrun::test::factor(call.op) * call.scale.prescale * call.scale.postscale);
}

}  // namespace hvd
