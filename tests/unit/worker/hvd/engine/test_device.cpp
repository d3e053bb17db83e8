// Operations on GPU memory through the engine, over the fake driver and NCCL.
#include <numeric>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/engine/gpu_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

using Floats = std::vector<float>;

Floats filled(std::size_t count, float value) { return Floats(count, value); }

}  // namespace

TEST_CASE("every collective runs on GPU memory, on one host and on two", "[engine][gpu]") {
  const auto hosts = GENERATE(std::vector<std::size_t>{3}, std::vector<std::size_t>{2, 1});
  GpuRanks ranks(hosts);
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    const auto own = static_cast<float>(rank + 1);
    Floats sum = filled(100, own);
    Floats mean = filled(10, own);
    Floats data = filled(7, own);
    Floats all(3 * 5);
    Floats uneven(1 + 2 + 3);
    Floats part(4);
    Floats swapped(3);
    const Floats five = filled(5, own);
    const Floats mine = filled(rank + 1, own);
    const Floats twelve = filled(12, own);
    const Floats three{own * 10, own * 10 + 1, own * 10 + 2};
    engine.run(on_gpu(OpKind::allreduce, sum.data(), sum.data(), 100, user));
    engine.run(
        on_gpu(OpKind::allreduce, mean.data(), mean.data(), 10, user, "m", hvd::ReduceOp::average));
    Operation broadcast = on_gpu(OpKind::broadcast, data.data(), data.data(), 7, user);
    broadcast.root = 2;
    engine.run(broadcast);
    engine.run(on_gpu(OpKind::allgather, five.data(), all.data(), 5, user));
    Operation gather = on_gpu(OpKind::allgather, mine.data(), uneven.data(), 0, user);
    gather.counts = {1, 2, 3};
    engine.run(gather);
    engine.run(on_gpu(OpKind::reducescatter, twelve.data(), part.data(), 4, user));
    engine.run(on_gpu(OpKind::alltoall, three.data(), swapped.data(), 1, user));
    Floats moved(3);  // rank r gets one from each rank
    Operation exchange = on_gpu(OpKind::alltoall, three.data(), moved.data(), 0, user);
    exchange.counts = {1, 1, 1};
    exchange.receive_counts = {1, 1, 1};
    engine.run(exchange);
    Floats a = filled(3, own);
    Floats b = filled(4, own * 2);
    Operation grouped = on_gpu(OpKind::allreduce, nullptr, nullptr, 0, user, "group");
    grouped.parts = {{a.data(), a.data(), 3}, {b.data(), b.data(), 4}};
    engine.run(grouped);
    GpuRanks::drain(user);
    expect(sum == filled(100, 6) && mean == filled(10, 2) && data == filled(7, 3), "reduced");
    expect(all[0] == 1 && all[5] == 2 && all[14] == 3, "gathered");
    expect(uneven == Floats{1, 2, 2, 3, 3, 3}, "gathered unevenly");
    expect(part == filled(4, 6), "scattered");
    const auto at = static_cast<float>(rank);
    expect(swapped == Floats{10 + at, 20 + at, 30 + at} && moved == swapped, "exchanged");
    expect(a == filled(3, 6) && b == filled(4, 12), "grouped");
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
  CHECK(fake().destroys == 3);
  CHECK(fake().aborts == 0);
}

TEST_CASE("ranks submit operations on GPU memory in any order", "[engine][gpu]") {
  GpuRanks ranks({3});
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    constexpr std::size_t kTensors = 23;  // a prime: every factor makes another order
    for (int step = 0; step < 5; ++step) {
      std::vector<Floats> data;
      for (std::size_t i = 0; i < kTensors; ++i) data.push_back(filled(3, float(i)));
      std::vector<std::uint64_t> ids;
      for (std::size_t i = 0; i < kTensors; ++i) {
        const std::size_t tensor = (i * (rank * 2 + 1) + rank) % kTensors;
        Floats& own = data[tensor];
        ids.push_back(engine.submit(on_gpu(OpKind::allreduce, own.data(), own.data(), 3, user,
                                           "tensor " + std::to_string(tensor))));
      }
      for (const std::uint64_t id : ids) engine.synchronize(id);
      GpuRanks::drain(user);
      for (std::size_t i = 0; i < kTensors; ++i)
        expect(data[i] == filled(3, float(3 * i)), "tensor " + std::to_string(i));
    }
    const EngineStatistics statistics = engine.statistics();
    expect(statistics.operations == 115 && statistics.batches < 60, "small ones run as one");
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("no host waits for a GPU, and streams are ordered both ways", "[engine][gpu]") {
  GpuRanks ranks({2});
  std::atomic<int> queued{0};
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const RankGpu& gpu = *ranks.gpus[rank];
    Floats value = filled(4, -1);
    const Floats source = filled(4, float(rank + 1));
    Floats result = filled(4, -1);
    // The input is written late: behind what holds the stream.
    if (rank == 0) hold(user.get());
    put(gpu, user, value.data(), source.data(), sizeof(float) * 4);
    const Operation blocking = on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, "b");
    engine.run(blocking);
    put(gpu, user, result.data(), value.data(), sizeof(float) * 4);
    ++queued;
    if (rank == 0) {
      while (queued < 2) std::this_thread::yield();
      expect(result[0] == -1, "the result is there before the input");
      fake().held = false;
    }
    GpuRanks::drain(user);
    expect(result == filled(4, 3), "the result on the stream");
  });
  REQUIRE(first_error(errors) == "");
  CHECK(queued == 2);
  CHECK(ranks.left() == "");
}

TEST_CASE("what is queued behind a submission does not wait for it", "[engine][gpu]") {
  GpuRanks ranks({2});
  std::atomic<bool> done{false};
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    Floats value = filled(4, 1);
    Floats result = filled(4, -1);
    if (rank == 0) hold(user.get());
    const std::uint64_t id =
        engine.submit(on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, "late"));
    if (rank == 1) {
      // As backward's next kernels: rank 0's input is not there yet.
      expect(!engine.wait(id, std::chrono::milliseconds(50)), "ended while rank 0 was held");
      GpuRanks::drain(user);
      expect(!engine.poll(id), "ended while rank 0 was held");
      done = true;
    } else {
      while (!done) std::this_thread::yield();
      fake().held = false;
    }
    expect(engine.wait(id, std::chrono::seconds(20)), "it has not ended");
    expect(engine.poll(id), "not done");
    expect(value == filled(4, 2), "its result");
    engine.synchronize(id);
    put(*ranks.gpus[rank], user, result.data(), value.data(), sizeof(float) * 4);
    GpuRanks::drain(user);
    expect(result == filled(4, 2), "the result on the stream");
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("a tensor on a GPU here and on a CPU there is an error with both sides",
          "[engine][gpu]") {
  GpuRanks ranks({2});
  const std::string name = GENERATE("grad", "");
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    Floats value = filled(4, 1);
    Operation operation = on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, name);
    if (rank == 1) operation.device.reset();
    engine.run(operation);
  });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == hvd::ErrorCode::mismatch);
    CHECK_THAT(error->text, Catch::Contains("rank 0 called allreduce(float32, 4 elements, sum, on "
                                            "a GPU), but rank 1 called allreduce(float32, 4 "
                                            "elements, sum)"));
  }
  // Nothing else is broken.
  REQUIRE(first_error(ranks.run([&](Engine& engine, std::size_t, GpuStream& user) {
            Floats value = filled(4, 1);
            engine.run(on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, name));
            GpuRanks::drain(user);
            expect(value == filled(4, 2), "sum");
          })).empty());
  CHECK(ranks.left() == "");
}

TEST_CASE("what ranks of an alltoall send must be what is expected, on GPUs too", "[engine][gpu]") {
  GpuRanks ranks({2});
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    Floats from = filled(8, 1);
    Floats to(8);
    Operation operation = on_gpu(OpKind::alltoall, from.data(), to.data(), 0, user);
    operation.counts = {1, 2};
    operation.receive_counts =
        rank == 0 ? std::vector<std::size_t>{1, 1} : std::vector<std::size_t>{3, 2};
    engine.run(operation);
  });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == hvd::ErrorCode::mismatch);
    CHECK(error->text == "alltoall: rank 0 sends 2 elements to rank 1, which expects 3");
  }
  CHECK(ranks.left() == "");
}

TEST_CASE("counts that vary are compared before they reach a GPU", "[engine][gpu]") {
  GpuRanks ranks({2});
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    const Floats from = filled(8, 1);
    Floats to(16);
    Operation gather = on_gpu(OpKind::allgather, from.data(), to.data(), 0, user);
    gather.varying_counts = true;
    for (std::size_t i = 0; i < 5; ++i) {
      gather.counts = {i, 2};
      engine.run(gather);
    }
    GpuRanks::drain(user);  // the failure below destroys what the stream still writes to
    gather.counts = {1, rank + 1};
    engine.run(gather);
  });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == hvd::ErrorCode::mismatch);
    CHECK(error->text == "rank 0 and rank 1 have other counts");
  }
  CHECK(ranks.left() == "");
}

TEST_CASE("ranks that have joined take part in operations on GPU memory", "[engine][gpu]") {
  GpuRanks ranks({3});
  const auto errors = ranks.run([](Engine& engine, std::size_t rank, GpuStream& user) {
    if (rank != 1) {
      Floats sum = filled(5, 2);
      Floats least = filled(5, 2);
      Floats a = filled(3, 1);
      Floats b = filled(4, 2);
      Floats all(3);
      const float own = 7;
      engine.run(on_gpu(OpKind::allreduce, sum.data(), sum.data(), 5, user, "sum"));
      engine.run(on_gpu(OpKind::allreduce, least.data(), least.data(), 5, user, "least",
                        hvd::ReduceOp::min));
      Operation grouped = on_gpu(OpKind::allreduce, nullptr, nullptr, 0, user, "group");
      grouped.parts = {{a.data(), a.data(), 3}, {b.data(), b.data(), 4}};
      engine.run(grouped);
      engine.run(on_gpu(OpKind::allgather, &own, all.data(), 1, user, "all"));
      GpuRanks::drain(user);
      expect(sum == filled(5, 4) && least == filled(5, 2), "reduced");
      expect(a == filled(3, 2) && b == filled(4, 4), "grouped");
      expect(all == Floats{7, 0, 7}, "gathered");
    }
    engine.join();
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}
