// The way out of an epoch with a GPU, in each order in which its parts can end.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/driver_calls.h"
#include "tests/gpu/gpu_rank.h"
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/gpu/events.h"
#include "worker/hvd/gpu/leaving.h"
#include "worker/hvd/gpu/watch.h"

using namespace hvdrun;
using namespace hvdrun::test;
using Catch::Contains;
using Catch::StartsWith;
using std::chrono::steady_clock;

namespace {

const hvd::Error kLostPeer(hvd::ErrorCode::peer_lost, "rank 1 on host b was killed by signal 9");
constexpr const char* kUseless = "GPU 0 (Fake) is of no use to this process any more: ";

// Rank 0 of two, with two communicators. Rank 1 has never anything under way.
struct Survivor {
  explicit Survivor(std::chrono::milliseconds abort_patience) : ranks(2) {
    parts = ranks.parts(0);
    parts.aborts = std::make_shared<GpuAborts>(abort_patience);
    own = std::make_unique<NcclCommunicator>(parts, 0, 2);
    second = std::make_unique<NcclCommunicator>(parts, 0, 2);
    REQUIRE(ranks.run([&](int rank) {
      NcclCommunicator& one = rank == 0 ? *own : ranks.at(1);
      one.connect(ranks.id(), 20s);
    }) == nothing_wrong(2));
    const nccl::UniqueId id = NcclCommunicator::make_id(*parts.nccl);
    other = std::make_unique<NcclCommunicator>(ranks.parts(1), 1, 2);
    REQUIRE(ranks.run([&](int rank) { (rank == 0 ? *second : *other).connect(id, 20s); }) ==
            nothing_wrong(2));
  }
  ~Survivor() {
    fake().context_hangs = false;
    fake().aborts_held = false;
  }
  Survivor(const Survivor&) = delete;
  Survivor& operator=(const Survivor&) = delete;

  // A step with an allreduce in it.
  std::unique_ptr<GraphCalls::Graph> capture() {
    std::unique_ptr<GraphCalls::Graph> graph;
    const auto errors = ranks.run([&](int rank) {
      if (rank != 0) return;
      const CurrentDevice current(*ranks.devices[0]);
      user = std::make_unique<GpuStream>(*ranks.devices[0]);
      graphs.begin(user->get());
      const GpuMark before(std::make_shared<GpuEvents>(*ranks.devices[0]), user->get());
      const std::vector<cuda::Event> after{before.event()};
      GpuCall call{user->get(), 20s};
      call.after = &after;
      call.captured = true;
      own->lead(
          own->allreduce(&value, &value, 1, {hvd::DataType::float32, hvd::ReduceOp::sum}, call),
          user->get());
      graph = std::make_unique<GraphCalls::Graph>(graphs, user->get());
    });
    REQUIRE(errors == nothing_wrong(2));
    return graph;
  }
  void launch(const GraphCalls::Graph& graph) {
    REQUIRE(ranks.run([&](int rank) {
      if (rank == 0) graph.launch(user->get());
    }) == nothing_wrong(2));
  }

  // As the watch does it.
  NcclCommunicator::Aborts lose_peer() {
    NcclCommunicator* const all[] = {own.get(), second.get()};
    return NcclCommunicator::begin_aborts(all, kLostPeer);
  }
  // As the engine does it, when the rank has left.
  void end_communicators() {
    own.reset();
    second.reset();
  }

  FakeRanks ranks;
  GpuParts parts;
  std::unique_ptr<NcclCommunicator> own;
  std::unique_ptr<NcclCommunicator> second;
  std::unique_ptr<NcclCommunicator> other;  // the second one's rank 1
  GraphCalls graphs{fake_file()};
  std::unique_ptr<GpuStream> user;
  float value = 1;
};

}  // namespace

TEST_CASE("a rank that has lost a peer goes on with its GPU", "[gpu][leaving]") {
  Survivor survivor(20s);
  fake().abort_needs = 2;  // one alone would wait for the other's kernel
  REQUIRE(survivor.ranks.run([&](int rank) {
    if (rank == 0) sum_one(*survivor.own, survivor.value);
  }) == nothing_wrong(2));
  survivor.lose_peer();
  CHECK(survivor.own->has_failed());
  CHECK(survivor.second->has_failed());
  survivor.end_communicators();
  CHECK(leave_with_gpu(survivor.parts) == std::nullopt);
  CHECK(fake().aborts == 2);
  CHECK(fake().misuses == 0);
}

TEST_CASE("a rank that leaves in peace goes on with its GPU", "[gpu][leaving]") {
  Survivor survivor(20s);
  for (const auto& one : {survivor.own.get(), survivor.second.get()}) one->close(20s);
  survivor.end_communicators();
  CHECK(leave_with_gpu(survivor.parts) == std::nullopt);
  CHECK(fake().aborts == 0);
}

TEST_CASE("a captured step is given back before NCCL is done", "[gpu][leaving]") {
  const bool launched = GENERATE(true, false);
  const bool first = GENERATE(true, false);  // before the loss is known
  CAPTURE(launched, first);
  Survivor survivor(20s);
  auto graph = survivor.capture();
  // On the GPU it waits for the lost rank.
  if (launched) survivor.launch(*graph);
  if (first) graph.reset();
  const auto aborts = survivor.lose_peer();
  if (!first) {
    CHECK_FALSE(aborts.front()->wait_until(steady_clock::now() + 50ms));
    graph.reset();
  }
  survivor.end_communicators();
  CHECK(leave_with_gpu(survivor.parts) == std::nullopt);
  CHECK(fake().misuses == 0);
}

TEST_CASE("NCCL's time begins when the program has come to leave", "[gpu][leaving]") {
  // A program may be at something else for long, and give its graphs back after that.
  Survivor survivor(200ms);
  auto graph = survivor.capture();
  survivor.lose_peer();
  std::this_thread::sleep_for(300ms);
  std::thread late([&] {
    std::this_thread::sleep_for(50ms);
    graph.reset();
  });
  CHECK(leave_with_gpu(survivor.parts) == std::nullopt);
  late.join();
}

TEST_CASE("an error of one communicator ends all of the rank's", "[gpu][leaving]") {
  Survivor survivor(20s);
  GpuWatch watch;
  watch.add(*survivor.own);
  watch.add(*survivor.second);
  watch.fail_all({hvd::ErrorCode::timeout, "not done after 1 s"});
  CHECK(survivor.own->has_failed());
  CHECK(survivor.second->has_failed());
  CHECK(leave_with_gpu(survivor.parts) == std::nullopt);
  CHECK(fake().aborts == 2);
  watch.remove(*survivor.own);
  watch.remove(*survivor.second);
}

TEST_CASE("a captured step that is kept costs the process", "[gpu][leaving]") {
  Survivor survivor(100ms);
  const auto graph = survivor.capture();
  survivor.lose_peer();
  CHECK(leave_with_gpu(survivor.parts).value_or("") ==
        std::string(kUseless) +
            "1 communicator of NCCL could not be ended within 0.1 s; graphs that have captured "
            "collectives must be given back in a leave callback");
}

TEST_CASE("aborts that hang cost the process, all together one patience", "[gpu][leaving]") {
  Survivor survivor(300ms);
  fake().aborts_held = true;
  const auto begin = steady_clock::now();
  survivor.lose_peer();
  CHECK_THAT(leave_with_gpu(survivor.parts).value_or(""),
             StartsWith(std::string(kUseless) + "2 communicators of NCCL could not be ended"));
  CHECK(steady_clock::now() - begin < 20s);
}

TEST_CASE("a context that has failed costs the process", "[gpu][leaving]") {
  Survivor survivor(20s);
  fake().context_result = 700;
  survivor.lose_peer();
  CHECK(leave_with_gpu(survivor.parts).value_or("") ==
        std::string(kUseless) + "cuCtxSynchronize: FAKE_ERROR (a fault of the fake)");
}

TEST_CASE("a context that does not answer costs the process", "[gpu][leaving]") {
  Survivor survivor(20s);
  fake().context_hangs = true;
  survivor.lose_peer();
  CHECK(leave_with_gpu(survivor.parts, 100ms).value_or("") ==
        std::string(kUseless) + "it has work of this process that does not end within 0.1 s");
}

TEST_CASE("the context is not asked before NCCL is done", "[gpu][leaving]") {
  // A kernel that waits for the dead would keep it from an answer.
  Survivor survivor(20s);
  fake().aborts_held = true;
  fake().context_result = 700;
  survivor.lose_peer();
  std::atomic<bool> over{false};
  std::thread leaving([&] {
    leave_with_gpu(survivor.parts);
    over = true;
  });
  std::this_thread::sleep_for(50ms);
  CHECK_FALSE(over);
  fake().aborts_held = false;
  leaving.join();
}
