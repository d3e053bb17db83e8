// Operations that a program captures in a graph of its GPU, over the fake driver and NCCL.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/gpu/driver_calls.h"
#include "tests/unit/worker/hvd/engine/gpu_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

using Floats = std::vector<float>;

// The ranks' first one, which makes the communicator; nothing can be captured before it.
void first_operation(Engine& engine, GpuStream& user) {
  float one = 1;
  engine.run(on_gpu(OpKind::allreduce, &one, &one, 1, user, "first"));
  GpuRanks::drain(user);
}

}  // namespace

TEST_CASE("a captured step runs again and again, and no host meets another", "[engine][gpu]") {
  const auto op = GENERATE(hvd::ReduceOp::sum, hvd::ReduceOp::average);
  GpuRanks ranks({2});
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    const RankGpu& gpu = *ranks.gpus[rank];
    first_operation(engine, user);
    constexpr std::size_t kTensors = 5;
    Floats input(kTensors);
    std::vector<Floats> data(kTensors, Floats(3));
    Floats output(kTensors);
    graphs.begin(user.get());
    std::vector<std::uint64_t> ids;
    for (std::size_t i = 0; i < kTensors; ++i) {
      put(gpu, user, data[i].data(), &input[i], sizeof(float));
      ids.push_back(engine.submit(on_gpu(OpKind::allreduce, data[i].data(), data[i].data(), 3, user,
                                         "tensor " + std::to_string(i), op)));
    }
    for (const std::uint64_t id : ids) {
      expect(engine.wait(id, std::chrono::seconds(10)), "nobody waits for what a graph will do");
      engine.synchronize(id);
    }
    for (std::size_t i = 0; i < kTensors; ++i)
      put(gpu, user, &output[i], data[i].data(), sizeof(float));
    const GraphCalls::Graph step(graphs, user.get());
    expect(output == Floats(kTensors), "nothing has run yet");

    const EngineStatistics before = engine.statistics();
    for (int run = 1; run <= 20; ++run) {
      for (std::size_t i = 0; i < kTensors; ++i)
        input[i] = static_cast<float>(i + 1) * static_cast<float>(run);
      for (Floats& each : data) each = {0, 0, 0};
      step.launch(user.get());
      GpuRanks::drain(user);
      for (std::size_t i = 0; i < kTensors; ++i) {
        const float wanted = op == hvd::ReduceOp::sum ? 2 * input[i] : input[i];
        expect(std::abs(output[i] - wanted) < 1e-4F * wanted, "run " + std::to_string(run));
      }
      // Others go on beside it.
      if (run % 5 == 0) first_operation(engine, user);
    }
    const EngineStatistics after = engine.statistics();
    expect(after.operations - before.operations == 4, "only the operations beside the graph");
    GpuRanks::drain(user);
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("blocking calls of every kind can be captured", "[engine][gpu]") {
  GpuRanks ranks({2, 1});
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    first_operation(engine, user);
    const auto own = static_cast<float>(rank + 1);
    Floats data(7, own);
    Floats all(6);
    Floats part(2);
    Floats swapped(3);
    const Floats two(2, own);
    const Floats six(6, own);
    const Floats three(3, own);
    graphs.begin(user.get());
    Operation broadcast = on_gpu(OpKind::broadcast, data.data(), data.data(), 7, user);
    broadcast.root = 2;
    engine.run(broadcast);
    engine.run(on_gpu(OpKind::allgather, two.data(), all.data(), 2, user));
    engine.run(on_gpu(OpKind::reducescatter, six.data(), part.data(), 2, user));
    engine.run(on_gpu(OpKind::alltoall, three.data(), swapped.data(), 1, user));
    const GraphCalls::Graph step(graphs, user.get());
    for (int run = 0; run < 3; ++run) {
      std::fill(data.begin(), data.end(), own);
      for (Floats* result : {&all, &part, &swapped}) std::fill(result->begin(), result->end(), 0.F);
      step.launch(user.get());
      GpuRanks::drain(user);
      expect(data == Floats(7, 3) && all == Floats{1, 1, 2, 2, 3, 3}, "broadcast, gathered");
      expect(part == Floats(2, 6) && swapped == Floats{1, 2, 3}, "scattered, exchanged");
    }
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("min and max of floats can be captured, and see a NaN", "[engine][gpu]") {
  GpuRanks ranks({2});
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    first_operation(engine, user);
    using Halves = std::vector<std::uint16_t>;
    constexpr std::uint16_t kNan = 0x7e00;
    const auto is_nan = [](std::uint16_t half) { return (half & 0x7fffU) > 0x7c00; };
    Halves halves(4);
    Floats four(4);
    Floats part(2);
    graphs.begin(user.get());
    // One passes through memory that the graph has, the other, too, and to be scattered.
    Operation least =
        on_gpu(OpKind::allreduce, halves.data(), halves.data(), 4, user, "", hvd::ReduceOp::min);
    least.reduction.type = hvd::DataType::float16;
    engine.run(least);
    engine.run(
        on_gpu(OpKind::reducescatter, four.data(), part.data(), 2, user, "", hvd::ReduceOp::max));
    const GraphCalls::Graph step(graphs, user.get());
    for (int run = 0; run < 3; ++run) {
      halves = {0x3c00, 0x4000, 0x8000, 0x0000};
      four = {1, 2, 1, 2};
      if (rank == 0) halves[1] = kNan;
      if (rank == 1) halves[2] = 0;
      if (rank == 1) four[0] = four[3] = NAN;
      step.launch(user.get());
      GpuRanks::drain(user);
      expect(halves[0] == 0x3c00 && is_nan(halves[1]) && halves[2] == 0x8000 && halves[3] == 0,
             "the least of float16");
      expect(std::isnan(part[rank]) && part[1 - rank] == (rank == 0 ? 2 : 1), "the greatest");
    }
  });
  REQUIRE(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("a graph cannot be captured on one rank alone, nor before the first operation",
          "[engine][gpu]") {
  GpuRanks ranks({2});
  std::vector<std::string> early(2);
  std::vector<std::string> alone(2);
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const GraphCalls graphs(fake_file());
    Floats value(4, 1);
    const auto run = [&](const char* name) {
      engine.run(on_gpu(OpKind::allreduce, value.data(), value.data(), 4, user, name));
    };
    graphs.begin(user.get());
    if (const auto error = error_of([&] { run("early"); })) early[rank] = error->text;
    graphs.drop(user.get());
    first_operation(engine, user);
    if (rank == 0) graphs.begin(user.get());
    if (const auto error = error_of([&] { run("alone"); })) alone[rank] = error->text;
    if (rank == 0) graphs.drop(user.get());
    // The job goes on.
    run("later");
    GpuRanks::drain(user);
    expect(value == Floats(4, 2), "and computes");
  });
  REQUIRE(first_error(errors) == "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK_THAT(early[rank], Contains("no graph can be captured before the ranks' first operation"));
    CHECK_THAT(alone[rank], Contains("in a graph") && Contains("on a GPU"));
  }
  CHECK(ranks.left() == "");
}
