// Operations on GPU memory that cannot be: no GPU, no NCCL, failures on the way.
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/engine/gpu_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

void sum_on_gpu(Engine& engine, GpuStream& user, const std::string& name = {}) {
  float value = 1;
  engine.run(on_gpu(OpKind::allreduce, &value, &value, 1, user, name));
  GpuRanks::drain(user);
  expect(value == static_cast<float>(engine.communicator().size()), "wrong sum");
}

void sum_on_cpu(Engine& engine) {
  float value = 1;
  Operation operation;
  operation.kind = OpKind::allreduce;
  operation.input = operation.output = &value;
  operation.count = 1;
  operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::sum, 1, 1};
  engine.run(operation);
  expect(value == static_cast<float>(engine.communicator().size()), "wrong sum on the CPU");
}

}  // namespace

TEST_CASE("without a GPU an operation on GPU memory is an error that says why", "[engine][gpu]") {
  GpuRanks ranks({2}, [](EngineOptions& options, int) {
    options.gpu.reset();
    options.no_gpu = "there is no NVIDIA driver here";
  });
  const auto errors = ranks.run(
      [](Engine& engine, std::size_t, GpuStream& user) { sum_on_gpu(engine, user, "grad"); });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK(error->code == hvd::ErrorCode::unavailable);
    CHECK(error->text ==
          "allreduce(float32, 1 element, sum, on a GPU): this rank has no GPU: there is no NVIDIA "
          "driver here");
  }
  CHECK(first_error(ranks.run([](Engine& engine, std::size_t, GpuStream&) {
          sum_on_cpu(engine);
        })).empty());
}

TEST_CASE("without NCCL on a rank only what needs it fails, on every rank alike", "[engine][gpu]") {
  GpuRanks ranks({3}, {}, [](int rank) {
    return rank == 1 ? std::string("/nowhere/libnccl.so.2") : std::string(fake_file());
  });
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    sum_on_cpu(engine);
    for (int turn = 0; turn < 2; ++turn) {
      const auto error = error_of([&] { sum_on_gpu(engine, user, "grad"); });
      expect(error && error->code == hvd::ErrorCode::unavailable, "no error");
      expect(
          error->text.find("'grad': rank 1: NCCL cannot be loaded as HVD_NCCL_LIBRARY says") == 0,
          error->text);
    }
    sum_on_cpu(engine);
  });
  CHECK(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("a communicator that cannot be made is the same error on every rank", "[engine][gpu]") {
  GpuRanks ranks({2});
  fake().init_result = nccl::system_error;
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    for (int turn = 0; turn < 2; ++turn) {
      const auto error = error_of([&] { sum_on_gpu(engine, user); });
      expect(error && error->text.find("rank 0 on GPU 0 (Fake): NCCL's communicator of 2 ranks: "
                                       "unhandled system error") != std::string::npos,
             error ? error->text : "no error");
    }
    sum_on_cpu(engine);
  });
  CHECK(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("NCCL's later error is an error on all ranks that names the rank", "[engine][gpu]") {
  GpuRanks ranks({3});
  CHECK(first_error(ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
          sum_on_gpu(engine, user);
        })).empty());
  fake().async_error = nccl::remote_error;
  fake().async_rank = 1;
  while (ranks.troubles == 0) std::this_thread::yield();
  const auto errors =
      ranks.run([](Engine& engine, std::size_t, GpuStream& user) { sum_on_gpu(engine, user); });
  for (const auto& error : errors) {
    REQUIRE(error);
    CHECK_THAT(error->text,
               Catch::Matches(".*rank 1 on GPU 1 \\(Fake\\): .*remote process exited.*"));
  }
  CHECK(ranks.left() == "");
}

TEST_CASE("a rank that dies ends what waits for it on the GPUs", "[engine][gpu]") {
  GpuRanks ranks({2});
  std::vector<float> values(2, 1.0F);
  std::atomic<bool> done{false};
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    float& value = values[rank];
    // Rank 1's part is queued, but never runs.
    if (rank == 1) hold(user.get());
    const std::uint64_t id = engine.submit(on_gpu(OpKind::allreduce, &value, &value, 1, user));
    engine.run(Operation{});  // a barrier: what was submitted before it has been queued
    expect(!engine.poll(id), "it has ended");
    if (rank == 1) {
      while (!done) std::this_thread::yield();
      ranks.gpus[1]->abort({hvd::ErrorCode::internal, "killed"});
      while (fake().aborts < 2) std::this_thread::yield();
      fake().held = false;
      return;
    }
    const hvd::Error lost(hvd::ErrorCode::peer_lost, "rank 1 is lost");
    engine.communicator().peer_gone(1, lost);
    ranks.gpus[0]->abort(lost);
    expect(engine.wait(id, std::chrono::seconds(20)), "not ended by the abort");
    while (fake().aborts < 1) std::this_thread::yield();
    done = true;
    engine.synchronize(id);
  });
  REQUIRE(errors[0]);
  CHECK(errors[0]->code == hvd::ErrorCode::peer_lost);
  CHECK(errors[0]->text == "rank 1 is lost");
  CHECK(ranks.left() == "");
}

TEST_CASE("after an error shutdown waits for the GPU a moment only", "[engine][gpu]") {
  GpuRanks ranks({2}, [](EngineOptions& options, int) {
    options.gpu_leave_timeout = std::chrono::milliseconds(50);
  });
  std::vector<float> values(2, 1.0F);
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    float& value = values[rank];
    if (rank == 1) hold(user.get());  // its part never runs
    engine.submit(on_gpu(OpKind::allreduce, &value, &value, 1, user));
    engine.run(Operation{});
    engine.communicator().abort({hvd::ErrorCode::internal, "this rank's program is wrong"});
    engine.shutdown();
    while (fake().aborts < 2) std::this_thread::yield();
    fake().held = false;
  });
  CHECK(first_error(errors) == "");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(ranks.left() == "");
}

TEST_CASE("what NCCL cannot do reaches no other rank", "[engine][gpu]") {
  GpuRanks ranks({2});
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    std::int16_t value = 1;
    Operation operation = on_gpu(OpKind::allreduce, &value, &value, 1, user);
    operation.reduction.type = hvd::DataType::int16;
    const auto wrong = error_of([&] { engine.run(operation); });
    expect(wrong && wrong->code == hvd::ErrorCode::invalid_argument, "16-bit integers");
    sum_on_gpu(engine, user);
  });
  CHECK(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("what needs kernels that are not there is an error on all ranks, and no more",
          "[engine][gpu]") {
  GpuRanks ranks(
      {2}, {}, [](int) { return std::string(fake_file()); }, "/nowhere/libhvd_cuda.so");
  const auto errors = ranks.run([](Engine& engine, std::size_t, GpuStream& user) {
    float value = 1;
    Operation operation = on_gpu(OpKind::allreduce, &value, &value, 1, user);
    operation.reduction.postscale = 2;
    const auto error = error_of([&] { engine.run(operation); });
    expect(error && error->code == hvd::ErrorCode::unavailable, error ? error->text : "no error");
    operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::adasum, 1, 1};
    const auto adasum = error_of([&] { engine.run(operation); });
    expect(adasum && adasum->code == hvd::ErrorCode::unavailable, "adasum");
    operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::max, 1, 1};
    const auto most = error_of([&] { engine.run(operation); });
    expect(most && most->code == hvd::ErrorCode::unavailable, "max");
    expect(error->text.find("rank 0: hvdrun's GPU kernels are not installed") != std::string::npos,
           error->text);
    sum_on_gpu(engine, user);
  });
  CHECK(first_error(errors) == "");
  CHECK(ranks.left() == "");
}

TEST_CASE("a rank that hangs as NCCL connects is an error of the other in time", "[engine][gpu]") {
  // It would be waited for as long as an operation may take, which is a minute.
  GpuRanks ranks({2}, [](EngineOptions& options, int) {
    options.gpu_connect_timeout = std::chrono::milliseconds(100);
  });
  fake().init_blocks_rank = 1;
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = ranks.run([&](Engine& engine, std::size_t rank, GpuStream& user) {
    const auto error = error_of([&] { sum_on_gpu(engine, user); });
    if (rank == 0) fake().init_blocks_rank = -1;
    expect(error.has_value(), "no error");
    if (rank == 0)
      expect(error->text.find("rank 0 on GPU 0 (Fake): NCCL's communicator of 2 ranks: not ready "
                              "after 0.1 s; another rank did not take part") != std::string::npos,
             error->text);
  });
  CHECK(first_error(errors) == "");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
  CHECK(ranks.left() == "");
}
