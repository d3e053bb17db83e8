#include "tests/gpu/public_api.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/gpu/driver_calls.h"
#include "tests/gpu/gpu_program.h"

namespace hvdrun::test {
namespace {

using std::chrono::steady_clock;

void results(const GpuDevice& device, Program& program) {
  const auto ranks = static_cast<std::size_t>(hvd::size());
  const auto own = static_cast<float>(hvd::rank() + 1);
  const auto all = static_cast<float>(ranks * (ranks + 1)) / 2;
  constexpr std::size_t kCount = 1000;
  const DeviceBytes in(device, kCount * ranks * sizeof(float));
  const DeviceBytes out(device, kCount * ranks * sizeof(float));
  const Floats input(kCount * ranks, own);
  Floats gathered;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    gathered.insert(gathered.end(), kCount, static_cast<float>(rank + 1));
  const auto& options = program.options;
  const auto sum = hvd::ReduceOp::sum;
  program.upload(in, input);
  hvd::allreduce(floats(in), floats(out), kCount, sum, {}, options);
  program.check(out, Floats(kCount, all), "allreduce");
  hvd::allgather(floats(in), floats(out), kCount, options);
  program.check(out, gathered, "allgather");
  hvd::alltoall(floats(in), floats(out), kCount, options);
  program.check(out, gathered, "alltoall");
  hvd::reducescatter(floats(in), floats(out), kCount, sum, {}, options);
  program.check(out, Floats(kCount, all), "reducescatter");
  hvd::grouped_allreduce({{floats(in), floats(out), 600}, {floats(in, 600), floats(out, 600), 400}},
                         hvd::DataType::float32, sum, {}, options);
  program.check(out, Floats(kCount, all), "grouped allreduce");
  hvd::broadcast(floats(in), kCount, hvd::size() - 1, options);
  program.check(in, Floats(kCount, static_cast<float>(ranks)), "broadcast");
}

// Named, in another order on each rank, several times.
void any_order(const GpuDevice& device, Program& program) {
  constexpr std::size_t kTensors = 31;
  const DeviceBytes data(device, kTensors * sizeof(float));
  const auto rank = static_cast<std::size_t>(hvd::rank());
  for (int step = 0; step < 10; ++step) {
    const Floats ones(kTensors, 1);
    program.upload(data, ones);
    std::vector<hvd::Handle> handles;
    for (std::size_t i = 0; i < kTensors; ++i) {
      const std::size_t tensor = (i * (rank + 1) + rank) % kTensors;
      hvd::OperationOptions options = program.options;
      options.name = "tensor " + std::to_string(tensor);
      handles.push_back(hvd::allreduce_async(floats(data, tensor), floats(data, tensor), 1,
                                             hvd::ReduceOp::sum, {}, options));
    }
    for (const hvd::Handle& handle : handles) hvd::synchronize(handle);
    program.check(data, Floats(kTensors, static_cast<float>(hvd::size())), "any order");
  }
}

void figures(const GpuDevice& device, Program& program, std::size_t bytes, int rounds) {
  const DeviceBytes data(device, bytes);
  const std::size_t count = bytes / sizeof(float);
  const auto once = [&] {
    hvd::allreduce(floats(data), floats(data), count, hvd::ReduceOp::average, {}, program.options);
  };
  const Floats zeros(count);
  program.upload(data, zeros);
  once();
  program.drain();
  const auto begin = steady_clock::now();
  double calls = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto call = steady_clock::now();
    once();
    calls += std::chrono::duration<double>(steady_clock::now() - call).count();
    program.drain();
  }
  const double each = std::chrono::duration<double>(steady_clock::now() - begin).count() / rounds;
  if (hvd::rank() == 0)
    std::printf("figure: hvd::allreduce of %zu bytes, np %d: %.1f us (the call %.1f us)\n", bytes,
                hvd::size(), each * 1e6, calls / rounds * 1e6);
}

// A step of ten collectives as a graph: what comes out of each run, and what a run takes.
void graph(const GpuDevice& device, Program& program) {
  constexpr std::size_t kTensors = 10;
  constexpr std::size_t kCount = 1000;
  constexpr int kRuns = 100;
  const GraphCalls graphs(kDriverFile);
  const DeviceBytes in(device, kTensors * kCount * sizeof(float));
  const DeviceBytes out(device, kTensors * kCount * sizeof(float));
  auto* const stream = static_cast<cuda::Stream>(program.options.stream);
  graphs.begin(stream);
  std::vector<hvd::Handle> handles;
  for (std::size_t i = 0; i < kTensors; ++i) {
    hvd::OperationOptions options = program.options;
    options.name = "captured " + std::to_string(i);
    handles.push_back(hvd::allreduce_async(floats(in, i * kCount), floats(out, i * kCount), kCount,
                                           hvd::ReduceOp::sum, {}, options));
  }
  for (const hvd::Handle& handle : handles) hvd::synchronize(handle);
  const GraphCalls::Graph step(graphs, stream);
  for (int run = 1; run <= 3; ++run) {
    const Floats input(kTensors * kCount, static_cast<float>(run));
    program.upload(in, input);
    step.launch(stream);
    program.check(out, Floats(kTensors * kCount, static_cast<float>(run * hvd::size())), "a graph");
  }
  const auto begin = steady_clock::now();
  for (int run = 0; run < kRuns; ++run) step.launch(stream);
  program.drain();
  const double each = std::chrono::duration<double>(steady_clock::now() - begin).count() / kRuns;
  if (hvd::rank() == 0)
    std::printf("figure: a graph of %zu allreduces of %zu bytes, np %d: %.1f us\n", kTensors,
                kCount * sizeof(float), hvd::size(), each * 1e6);
}

// One rank: the time of the stream that a call takes, and that NCCL's own call takes.
void stream_time(const CudaDriver& driver, const GpuDevice& device, Program& program,
                 std::size_t bytes) {
  constexpr int kCalls = 200;
  const char* const file = std::getenv(kNcclLibraryVariable);
  const auto nccl = load_nccl(file != nullptr ? file : "");
  if (!nccl.value) throw std::runtime_error(nccl.why);
  const nccl::Api& api = nccl.value->api;
  nccl::Config config;
  config.blocking = 1;
  nccl::Comm comm = nullptr;
  nccl::UniqueId id{};
  const auto good = [](nccl::Result result) {
    return result == nccl::success || result == nccl::in_progress;
  };
  if (!good(api.get_unique_id(&id)) || !good(api.comm_init_rank_config(&comm, 1, id, 0, &config)))
    throw std::runtime_error("a communicator of NCCL's own");
  const DeviceBytes data(device, bytes);
  const std::size_t count = bytes / sizeof(float);
  auto* const stream = static_cast<cuda::Stream>(program.options.stream);
  StreamClock clock(kDriverFile, driver.api);
  const auto measured = [&](const auto& call) {
    call();
    program.drain();
    clock.begin(stream);
    for (int i = 0; i < kCalls; ++i) call();
    clock.end(stream);
    program.drain();
    return clock.microseconds() / kCalls;
  };
  const double bare = measured([&] {
    api.all_reduce(data.get(), data.get(), count, nccl::float32, nccl::sum, comm, stream);
  });
  const double ours = measured([&] {
    hvd::allreduce(floats(data), floats(data), count, hvd::ReduceOp::sum, {}, program.options);
  });
  std::printf(
      "figure: stream time of an allreduce of %zu bytes, np 1: %.1f us, NCCL alone %.1f us\n",
      bytes, ours, bare);
  api.comm_destroy(comm);
}

}  // namespace

void run_public_api() {
  const auto begin = steady_clock::now();
  hvd::init();
  if (hvd::rank() == 0)
    std::printf("figure: hvd::init with a GPU: %.0f ms\n",
                std::chrono::duration<double>(steady_clock::now() - begin).count() * 1e3);
  if (hvd::gpu() < 0) throw std::runtime_error("hvd::init has taken no GPU");
  const auto driver = load_cuda_driver();
  if (!driver.value) throw std::runtime_error(driver.why);
  {
    const GpuDevice device(*driver.value, hvd::gpu());
    Program program(device);
    results(device, program);
    any_order(device, program);
    figures(device, program, 4096, 200);
    figures(device, program, 64U << 20U, 20);
    graph(device, program);
    if (hvd::size() == 1) {
      stream_time(*driver.value, device, program, 4096);
      stream_time(*driver.value, device, program, 64U << 20U);
    }
  }
  hvd::shutdown();
}

}  // namespace hvdrun::test
