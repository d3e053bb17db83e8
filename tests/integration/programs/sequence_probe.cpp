// Random operations through <hvd/hvd.h>, each compared with the serial result.
//
//   sequence_probe COUNT SEED   that many; the same SEED on every rank
//   sequence_probe memory BYTES   collectives on an ordinary buffer of this size
//   sequence_probe until-lost   until one fails; prints "lost after N ms: ..." when that is for
//   lack
//                               of a peer. Ignores SIGTERM, so that the launcher lets it say so.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "worker/hvd/comm/communicator.h"

namespace hvdrun::test {
namespace {

using Clock = std::chrono::steady_clock;

// The library as a backend of the conformance tests: blocking and asynchronous by turns.
class HvdCommunicator final : public Communicator {
 public:
  int rank() const override { return hvd::rank(); }
  int size() const override { return hvd::size(); }

  void allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                 const CallOptions& /*options*/) override {
    const hvd::ScaleFactors scale{reduction.prescale, reduction.postscale};
    if (!asynchronous()) {
      hvd::allreduce(input, output, count, reduction.type, reduction.op, scale);
    } else {
      finish(hvd::allreduce_async(input, output, count, reduction.type, reduction.op, scale));
    }
  }
  // These are called by none of the conformance tests.
  void grouped_allreduce(const std::vector<BufferPart>& /*parts*/, const Reduction& /*reduction*/,
                         const CallOptions& /*options*/) override {
    throw std::logic_error("grouped_allreduce");
  }
  void alltoall_from(const BufferRow& /*row*/, std::size_t /*begin*/,
                     const std::size_t* /*send_counts*/, void* /*output*/,
                     const std::size_t* /*receive_counts*/, hvd::DataType /*type*/,
                     const CallOptions& /*options*/) override {
    throw std::logic_error("alltoall_from");
  }
  void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                 const CallOptions& /*options*/) override {
    if (!asynchronous()) {
      hvd::broadcast(data, count, type, root);
    } else {
      finish(hvd::broadcast_async(data, count, type, root));
    }
  }
  void allgather(const void* input, void* output, const std::size_t* counts, hvd::DataType type,
                 const CallOptions& /*options*/) override {
    if (!asynchronous()) {
      hvd::allgatherv(input, output, counts, type);
    } else {
      finish(hvd::allgatherv_async(input, output, counts, type));
    }
  }
  void reducescatter(const void* input, void* output, const std::size_t* counts,
                     const Reduction& reduction, const CallOptions& /*options*/) override {
    const hvd::ScaleFactors scale{reduction.prescale, reduction.postscale};
    if (!asynchronous()) {
      hvd::reducescatterv(input, output, counts, reduction.type, reduction.op, scale);
    } else {
      finish(hvd::reducescatterv_async(input, output, counts, reduction.type, reduction.op, scale));
    }
  }
  void alltoall(const void* input, const std::size_t* send_counts, void* output,
                const std::size_t* receive_counts, hvd::DataType type,
                const CallOptions& /*options*/) override {
    if (input == output) {
      hvd::alltoall(input, output, send_counts[0], type);  // all are the same
    } else if (!asynchronous()) {
      hvd::alltoallv(input, send_counts, output, receive_counts, type);
    } else {
      finish(hvd::alltoallv_async(input, send_counts, output, receive_counts, type));
    }
  }
  void barrier(const CallOptions& /*options*/) override { hvd::barrier(); }
  void abort(const hvd::Error& /*reason*/) override {}
  void peer_gone(int /*rank*/, const hvd::Error& /*reason*/) override {}
  bool await_others(std::chrono::milliseconds /*limit*/) override { return false; }
  void wake() override {}

 private:
  bool asynchronous() { return ++calls_ % 2 == 0; }
  static void finish(hvd::Handle handle) {
    if (!hvd::wait(handle, std::chrono::seconds(60))) throw std::runtime_error("too late");
    hvd::synchronize(handle);
  }

  unsigned calls_ = 0;
};

class HvdBuffers final : public BufferSource {
 public:
  char* allocate(std::size_t bytes) override { return static_cast<char*>(hvd::alloc(bytes)); }
  void release(char* memory) override { hvd::free(memory); }
};

// Several at once, finished in another order than begun.
void check_burst(std::uint64_t round) {
  constexpr std::size_t kOperations = 8;
  std::vector<std::vector<std::int64_t>> data(kOperations);
  std::vector<hvd::Handle> handles;
  for (std::size_t i = 0; i < kOperations; ++i) {
    data[i].assign(1 + (round + i) * 977 % 5000, static_cast<std::int64_t>(i) + hvd::rank());
    handles.push_back(
        hvd::allreduce_async(data[i].data(), data[i].data(), data[i].size(), hvd::ReduceOp::sum));
  }
  const auto size = static_cast<std::int64_t>(hvd::size());
  for (std::size_t i = kOperations; i-- > 0;) {
    hvd::synchronize(handles[i]);
    const std::int64_t want = size * static_cast<std::int64_t>(i) + size * (size - 1) / 2;
    expect(data[i].front() == want && data[i].back() == want, "wrong sum in a burst");
  }
}

void check_all(const std::vector<Case>& cases) {
  HvdCommunicator communicator;
  HvdBuffers buffers;
  std::uint64_t round = 0;
  for (const Case& c : cases) {
    check_collective(c, communicator, {}, &buffers);
    if (++round % 40 == 0) check_burst(round);
  }
}

int run_until_lost() {
  ::signal(SIGTERM, SIG_IGN);
  std::printf("process %d (rank %d)\n", ::getpid(), hvd::rank());
  std::fflush(stdout);
  // The call that fails is not known from outside it: the time since the last one that did not.
  const std::vector<Case> cases = random_cases(42, 500, hvd::size());
  HvdCommunicator communicator;
  HvdBuffers buffers;
  Clock::time_point begin;
  try {
    for (std::size_t i = 0;; i = (i + 1) % cases.size()) {
      begin = Clock::now();
      check_collective(cases[i], communicator, {}, &buffers);
    }
  } catch (const hvd::Error& error) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
    const bool lost = error.code() == hvd::ErrorCode::peer_lost;
    std::printf("%s after %lld ms: %s\n", lost ? "lost" : "error",
                static_cast<long long>(ms.count()), error.what());
    std::fflush(stdout);
    return lost ? 3 : 4;
  }
}

// In place, so that the buffer is all the memory that the program itself takes.
void use_buffer(std::size_t bytes) {
  const std::size_t ranks = static_cast<std::size_t>(hvd::size());
  const std::size_t part = bytes / sizeof(float) / ranks;
  std::vector<float> data(part * ranks, 1.0F);
  float* const own = data.data() + part * static_cast<std::size_t>(hvd::rank());
  hvd::allreduce(data.data(), data.data(), data.size());
  hvd::synchronize(hvd::allreduce_async(data.data(), data.data(), data.size()));
  hvd::broadcast(data.data(), data.size());
  hvd::allgather(own, data.data(), part);
  hvd::reducescatter(data.data(), data.data(), part);
  hvd::alltoall(data.data(), data.data(), part);
  expect(data.front() == 1.0F && data.back() == 1.0F, "wrong result");
}

int run(const std::vector<std::string>& args) {
  hvd::init();
  int code = 0;
  if (args.size() == 1 && args[0] == "until-lost") {
    code = run_until_lost();
  } else if (args.size() == 2 && args[0] == "memory") {
    use_buffer(std::stoull(args[1]));
  } else if (args.size() == 2) {
    check_all(random_cases(std::stoull(args[1]), std::stoull(args[0]), hvd::size()));
  } else {
    code = 64;
  }
  hvd::shutdown();
  return code;
}

}  // namespace
}  // namespace hvdrun::test

int main(int argc, char** argv) {
  try {
    return hvdrun::test::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    std::printf("sequence_probe: %s\n", e.what());
    return 1;
  }
}
