#include "tests/gpu/public_api.h"

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/gpu/gpu_rank.h"

namespace hvdrun::test {
namespace {

using std::chrono::steady_clock;
using Floats = std::vector<float>;

// The program's side: memory and a stream on the GPU that init() has taken.
class Program {
 public:
  explicit Program(const GpuDevice& device) : device_(device), user_(device) {
    options.device = hvd::Device::gpu;
    options.stream = user_.get();
  }
  // Queued only: `data` must live until the next check() or drain().
  void upload(const DeviceBytes& to, const Floats& data) {
    check_cuda(device_.api(),
               device_.api().copy_to_device(to.pointer(), data.data(), data.size() * sizeof(float),
                                            user_.get()),
               "cuMemcpyHtoDAsync");
  }
  // By the stream only: nothing else orders it after the collective.
  void check(const DeviceBytes& from, const Floats& wanted, const char* what) {
    Floats got(wanted.size());
    check_cuda(device_.api(),
               device_.api().copy_from_device(got.data(), from.pointer(),
                                              got.size() * sizeof(float), user_.get()),
               "cuMemcpyDtoHAsync");
    drain();
    if (got != wanted) throw std::runtime_error(std::string("wrong result: ") + what);
  }
  void drain() {
    cuda::Event event = user_.lead(user_.get());
    const auto deadline = steady_clock::now() + std::chrono::seconds(60);
    while (!user_.has_ended(event)) {
      if (steady_clock::now() > deadline) throw std::runtime_error("the stream does not end");
      std::this_thread::yield();
    }
    user_.recycle(event);
  }

  hvd::OperationOptions options;

 private:
  const GpuDevice& device_;
  GpuStream user_;
};

float* floats(const DeviceBytes& memory, std::size_t skip = 0) {
  return static_cast<float*>(memory.get()) + skip;
}

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
  }
  hvd::shutdown();
}

}  // namespace hvdrun::test
