// The fake NCCL: communicators that do not block, as the real one behaves (2.28). A group is put on
// its streams by a thread of NCCL's, later than group_end returns. Until then the communicator is
// "in progress" and takes nothing else.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <thread>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/gpu/fake_gpu.h"
#include "tests/unit/worker/hvd/gpu/fake_meeting.h"
#include "tests/unit/worker/hvd/gpu/fake_stream.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun::nccl {
struct CommOfNccl {
  std::shared_ptr<hvdrun::test::Clique> clique;
  int rank = 0;
  bool joined = false;
  std::atomic<bool> aborted{false};
  std::atomic<bool> revoked{false};
  std::atomic<bool> gone{false};
  std::atomic<bool> queueing{false};
  std::atomic<bool> lost_peer{false};
  std::atomic<int> running{0};   // groups that have not ended
  std::atomic<int> captured{0};  // in graphs that have not ended
  std::uint64_t groups = 0;
  std::map<int, double> factors;
};
}  // namespace hvdrun::nccl

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

struct Nccl {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  std::vector<std::unique_ptr<nccl::CommOfNccl>> comms;  // for ever, to see late uses
  int ids = 0;
};
Nccl& nccl_state() {
  static Nccl& one = *new Nccl;
  return one;
}

struct Group {
  int depth = 0;
  nccl::Comm comm = nullptr;
  void* stream = nullptr;
  std::vector<Call> calls;
};
thread_local Group group;

// A group's place in a graph, or in a launch of it.
std::shared_ptr<void> captured_place(nccl::Comm comm, void* stream) {
  if (!fake_stream(stream).capture()) return nullptr;
  ++comm->captured;
  return {comm, [](nccl::Comm own) { --own->captured; }};
}

nccl::Comm new_comm(std::shared_ptr<Clique> clique, int rank) {
  auto comm = std::make_unique<nccl::CommOfNccl>();
  comm->clique = std::move(clique);
  comm->rank = rank;
  {
    const std::lock_guard lock(comm->clique->mutex);
    ++comm->clique->joined;
    comm->clique->changed.notify_all();
  }
  const std::lock_guard lock(nccl_state().mutex);
  nccl_state().comms.push_back(std::move(comm));
  return nccl_state().comms.back().get();
}

std::shared_ptr<Clique> clique_of(const std::string& key, int size) {
  const std::lock_guard lock(nccl_state().mutex);
  auto& clique = nccl_state().cliques[key];
  if (!clique) clique = std::make_shared<Clique>(size);
  return clique;
}

// The bytes that NCCL 2.28 writes where one rank averages, or has a factor. Each of its 32 blocks
// takes as many elements, rounded down, in whole 16 bytes; none takes what is left of many.
std::size_t written_alone(const Call& call) {
  constexpr std::size_t kBlocks = 32;
  if (call.op != nccl::avg && call.factor == 1) return call.count;
  const std::size_t unit = 16 / width(call);
  const std::size_t each = (call.count / kBlocks + unit - 1) / unit * unit;
  return each == 0 ? call.count : std::min(call.count, each * kBlocks);
}

// On a stream's thread, as a kernel is on the GPU: waits for all ranks, or for an abort.
void run_group(nccl::Comm comm, std::uint64_t number, std::vector<Call> calls) {
  Clique& clique = *comm->clique;
  std::unique_lock lock(clique.mutex);
  Clique::Meeting& meeting = clique.meetings[number];
  meeting.calls[comm->rank] = std::move(calls);
  clique.changed.notify_all();
  const auto stopped = [&] { return comm->aborted || comm->revoked; };
  clique.changed.wait(lock, [&] {
    return meeting.calls.size() == static_cast<std::size_t>(clique.size) || stopped();
  });
  if (stopped()) return;
  std::vector<Bytes> results;
  for (std::size_t i = 0; i < meeting.calls.at(comm->rank).size(); ++i)
    results.push_back(result_of(meeting, comm->rank, i));
  ++meeting.read;
  clique.changed.notify_all();
  clique.changed.wait(lock, [&] { return meeting.read == clique.size || stopped(); });
  if (stopped()) return;  // who has aborted it may free the memory
  if (clique.size == 1)
    for (std::size_t i = 0; i < results.size(); ++i) {
      const Call& call = meeting.calls.at(comm->rank)[i];
      results[i].resize(std::min(results[i].size(), written_alone(call) * width(call)));
    }
  for (std::size_t i = 0; i < results.size(); ++i)
    if (!results[i].empty())
      std::memcpy(meeting.calls.at(comm->rank)[i].receive, results[i].data(), results[i].size());
}

bool usable(nccl::Comm comm) {
  ++fake_gpu()->nccl_calls;
  const bool bad = comm->aborted || comm->gone || comm->queueing || !has_context();
  if (bad) ++fake_gpu()->misuses;
  return !bad && !comm->revoked;
}

nccl::Result add(nccl::Comm comm, void* stream, Call call) {
  fake_gpu()->log(call.kind + " on stream " + std::to_string(fake_stream(stream).number()));
  if (!usable(comm)) return nccl::invalid_argument;
  if (group.depth == 0) {
    ++fake_gpu()->misuses;
    return nccl::invalid_usage;
  }
  if (const auto found = comm->factors.find(call.op); found != comm->factors.end()) {
    call.factor = found->second;
    call.op = nccl::sum;
  }
  call.ranks = comm->clique->size;
  group.comm = comm;
  group.stream = stream;
  group.calls.push_back(std::move(call));
  return nccl::in_progress;
}

// Waits on the CPU, never for ever: a test that would hang fails instead.
template <class Condition>
void wait_for(Condition condition) {
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!condition() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(200us);
}

}  // namespace
}  // namespace hvdrun::test

using namespace hvdrun;
using namespace hvdrun::test;

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE nccl::Result ncclGetVersion(int* version) {
  *version = 22809;
  return nccl::success;
}
FAKE const char* ncclGetErrorString(nccl::Result result) {
  return result == nccl::remote_error ? "remote process exited or there was a network error"
                                      : "unhandled system error";
}
FAKE const char* ncclGetLastError(nccl::Comm) {
  const std::lock_guard lock(fake_gpu()->mutex);
  thread_local std::string text;  // the caller reads it without the lock
  text = fake_gpu()->last_error;
  return text.c_str();
}
FAKE nccl::Result ncclGetUniqueId(nccl::UniqueId* id) {
  ++fake_gpu()->nccl_calls;
  const std::lock_guard lock(nccl_state().mutex);
  *id = {};
  const std::string text = "id " + std::to_string(++nccl_state().ids);
  fake_gpu()->log("makes " + text);
  std::copy(text.begin(), text.end(), id->bytes);
  return nccl::success;
}
FAKE nccl::Result ncclCommInitRankConfig(nccl::Comm* comm, int size, nccl::UniqueId id, int rank,
                                         nccl::Config* config) {
  ++fake_gpu()->nccl_calls;
  fake_gpu()->log("connects by " + std::string(id.bytes));
  wait_for([&] { return fake_gpu()->init_blocks_rank != rank; });
  if (config->magic != 0xcafebeef || config->blocking != 0 || !has_context()) ++fake_gpu()->misuses;
  if (fake_gpu()->init_result != 0)
    return static_cast<nccl::Result>(fake_gpu()->init_result.load());
  *comm = new_comm(clique_of(id.bytes, size), rank);
  return nccl::in_progress;
}
FAKE nccl::Result ncclCommGetAsyncError(nccl::Comm comm, nccl::Result* state) {
  crash_if_ended();
  ++fake_gpu()->nccl_calls;
  ++fake_gpu()->looks;
  if (comm->gone || comm->aborted) ++fake_gpu()->misuses;
  if (!comm->joined && !fake_gpu()->init_hangs) {
    const std::lock_guard lock(comm->clique->mutex);
    comm->joined = comm->clique->joined == comm->clique->size;
  }
  *state = !comm->joined || comm->queueing ? nccl::in_progress : nccl::success;
  if (*state == nccl::success && comm->lost_peer) *state = nccl::remote_error;
  if (*state == nccl::success && fake_gpu()->async_rank == comm->rank)
    *state = static_cast<nccl::Result>(fake_gpu()->async_error.load());
  while (*state != nccl::success && *state != nccl::in_progress && fake_gpu()->looks_held)
    std::this_thread::yield();
  return nccl::success;
}
FAKE nccl::Result ncclCommAbort(nccl::Comm comm) {
  ++fake_gpu()->nccl_calls;
  if (comm->gone || comm->aborted || !has_context()) ++fake_gpu()->misuses;
  comm->aborted = true;
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->left = true;
    comm->clique->changed.notify_all();
  }
  const int needed = fake_gpu()->abort_needs;
  ++fake_gpu()->aborts;
  // As the real one it waits for graphs, once it has had the kernels leave.
  wait_for([&] {
    return fake_gpu()->aborts >= needed && !fake_gpu()->aborts_held && comm->captured == 0;
  });
  crash_if_ended();
  return nccl::success;
}
FAKE nccl::Result ncclCommFinalize(nccl::Comm comm) {
  return usable(comm) ? nccl::success : nccl::invalid_argument;
}
FAKE nccl::Result ncclCommDestroy(nccl::Comm comm) {
  ++fake_gpu()->nccl_calls;
  if (comm->gone || comm->aborted) ++fake_gpu()->misuses;
  comm->gone = true;
  ++fake_gpu()->destroys;
  return nccl::success;
}
FAKE nccl::Result ncclCommSplit(nccl::Comm comm, int color, int, nccl::Comm* child, nccl::Config*) {
  if (!usable(comm)) return nccl::invalid_argument;
  if (comm->running > 0) ++fake_gpu()->misuses;
  ++fake_gpu()->splits;
  if (fake_gpu()->split_fails_rank == comm->rank) return nccl::system_error;
  comm->queueing = true;
  // Every rank tells its color; then the members know their number.
  const auto number = comm->groups++;
  std::thread([=] {
    Clique& clique = *comm->clique;
    std::unique_lock lock(clique.mutex);
    auto& meeting = clique.meetings[number];
    Call call;
    call.peer = color;
    meeting.calls[comm->rank] = {call};
    clique.changed.notify_all();
    clique.changed.wait(lock, [&] {
      return meeting.calls.size() == static_cast<std::size_t>(clique.size) || comm->aborted ||
             clique.left;
    });
    if (meeting.calls.size() < static_cast<std::size_t>(clique.size)) {
      comm->lost_peer = true;
    } else if (!comm->aborted && color != nccl::kSplitNoColor) {
      int rank = 0;
      int size = 0;
      for (const auto& [theirs, calls] : meeting.calls) {
        if (calls.front().peer != color) continue;
        if (theirs < comm->rank) ++rank;
        ++size;
      }
      lock.unlock();
      const std::string key = "split " + std::to_string(reinterpret_cast<std::uintptr_t>(&clique)) +
                              " " + std::to_string(number);
      *child = new_comm(clique_of(key, size), rank);
    }
    comm->queueing = false;
  }).detach();
  return nccl::in_progress;
}
FAKE nccl::Result ncclCommShrink(nccl::Comm comm, int* gone, int count, nccl::Comm* child,
                                 nccl::Config*, int flags) {
  if (comm->aborted || comm->gone || comm->queueing) return nccl::invalid_argument;
  fake_gpu()->shrink_flags = flags;
  comm->revoked = true;
  {
    const std::lock_guard lock(comm->clique->mutex);
    comm->clique->changed.notify_all();
  }
  int rank = comm->rank;
  for (int i = 0; i < count; ++i)
    if (gone[i] < comm->rank) --rank;
  const std::string key =
      "shrink " + std::to_string(reinterpret_cast<std::uintptr_t>(comm->clique.get()));
  *child = new_comm(clique_of(key, comm->clique->size - count), rank);
  return nccl::in_progress;
}
FAKE nccl::Result ncclCommRevoke(nccl::Comm comm, int) {
  comm->revoked = true;
  const std::lock_guard lock(comm->clique->mutex);
  comm->clique->changed.notify_all();
  return nccl::in_progress;
}
FAKE nccl::Result ncclRedOpCreatePreMulSum(nccl::RedOp* op, void* scalar, nccl::DataType type,
                                           nccl::ScalarResidence, nccl::Comm comm) {
  if (!usable(comm)) return nccl::invalid_argument;
  const int made = 100 + static_cast<int>(comm->factors.size());
  comm->factors[made] = decode(scalar, type);
  ++fake_gpu()->redops;
  *op = static_cast<nccl::RedOp>(made);
  return nccl::success;
}
FAKE nccl::Result ncclRedOpDestroy(nccl::RedOp op, nccl::Comm comm) {
  if (comm->factors.erase(op) != 1) ++fake_gpu()->misuses;
  --fake_gpu()->redops;
  return nccl::success;
}
FAKE nccl::Result ncclGroupStart() {
  ++fake_gpu()->nccl_calls;
  fake_gpu()->log("group_start");
  ++group.depth;
  return nccl::success;
}
FAKE nccl::Result ncclGroupEnd() {
  fake_gpu()->log("group_end");
  if (--group.depth > 0) return nccl::success;
  Group done;
  std::swap(done, group);
  if (done.comm == nullptr) return nccl::success;
  nccl::Comm comm = done.comm;
  if (fake_gpu()->group_end_hangs_rank == comm->rank) {
    wait_for([&] { return comm->aborted.load(); });
    return nccl::internal_error;
  }
  for (const Call& reader : done.calls)
    for (const Call& writer : done.calls)
      if (overlap(reader, writer, comm->rank)) ++fake_gpu()->misuses;
  comm->queueing = true;
  const auto number = comm->groups++;
  std::thread([=, calls = std::move(done.calls)]() mutable {
    // Late on purpose: who does not wait for the state to change loses this race.
    std::this_thread::sleep_for(50us);
    if (number == 0 && fake_gpu()->connects_late) {
      Clique& clique = *comm->clique;
      std::unique_lock lock(clique.mutex);
      ++clique.connecting;
      clique.changed.notify_all();
      clique.changed.wait(lock, [&] { return clique.connecting >= clique.size || comm->aborted; });
    }
    // In a graph it runs more than once, and meets the others anew each time.
    const auto runs = std::make_shared<std::uint64_t>(0);
    ++comm->running;
    fake_stream(done.stream)
        .push([=, calls = std::move(calls), place = captured_place(comm, done.stream)] {
          run_group(comm, number | (*runs)++ << 32U, calls);
          --comm->running;
        });
    comm->queueing = false;
  }).detach();
  return nccl::in_progress;
}
FAKE nccl::Result ncclAllReduce(const void* send, void* receive, std::size_t count,
                                nccl::DataType type, nccl::RedOp op, nccl::Comm comm,
                                cuda::Stream stream) {
  return add(comm, stream, {"all_reduce", send, receive, count, type, op});
}
FAKE nccl::Result ncclReduce(const void* send, void* receive, std::size_t count,
                             nccl::DataType type, nccl::RedOp op, int root, nccl::Comm comm,
                             cuda::Stream stream) {
  return add(comm, stream,
             {"reduce", send, root == comm->rank ? receive : nullptr, count, type, op, 1, root});
}
FAKE nccl::Result ncclBroadcast(const void* send, void* receive, std::size_t count,
                                nccl::DataType type, int root, nccl::Comm comm,
                                cuda::Stream stream) {
  return add(comm, stream, {"broadcast", send, receive, count, type, {}, 1, root});
}
FAKE nccl::Result ncclAllGather(const void* send, void* receive, std::size_t count,
                                nccl::DataType type, nccl::Comm comm, cuda::Stream stream) {
  return add(comm, stream, {"all_gather", send, receive, count, type});
}
FAKE nccl::Result ncclReduceScatter(const void* send, void* receive, std::size_t count,
                                    nccl::DataType type, nccl::RedOp op, nccl::Comm comm,
                                    cuda::Stream stream) {
  return add(comm, stream, {"reduce_scatter", send, receive, count, type, op});
}
FAKE nccl::Result ncclSend(const void* send, std::size_t count, nccl::DataType type, int peer,
                           nccl::Comm comm, cuda::Stream stream) {
  return add(comm, stream, {"send", send, nullptr, count, type, {}, 1, peer});
}
FAKE nccl::Result ncclRecv(void* receive, std::size_t count, nccl::DataType type, int peer,
                           nccl::Comm comm, cuda::Stream stream) {
  return add(comm, stream, {"receive", nullptr, receive, count, type, {}, 1, peer});
}
