// Engines of ranks that have a GPU each: those of the fake driver and NCCL
// (tests/unit/worker/hvd/gpu), whose memory is ordinary memory.
#pragma once

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/worker/hvd/engine/engine_ranks.h"
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/gpu/rank_gpu.h"

namespace hvdrun::test {

class GpuRanks {
 public:
  explicit GpuRanks(
      const std::vector<std::size_t>& hosts,
      const std::function<void(EngineOptions&, int)>& change = {},
      const std::function<std::string(int rank)>& nccl_file_of =
          [](int) { return std::string(fake_file()); },
      const std::string& kernels_file = fake_file()) {
    reset_fake();
    contexts_ = fake().contexts;
    engines = std::make_unique<EngineRanks>(hosts, [&](EngineOptions& options, int rank) {
      gpus.push_back(std::make_shared<RankGpu>(
          select_device(rank, 8, nullptr, fake_file()), nccl_file_of(rank),
          [this, rank](const hvd::Error& error) {
            (*engines)[static_cast<std::size_t>(rank)].communicator().abort(error);
            ++troubles;
          },
          kernels_file));
      options.gpu = gpus.back();
      options.gpu_connect_timeout = std::chrono::seconds(20);
      if (change) change(options, rank);
    });
  }

  // As EngineRanks::run(), each rank with a stream of its program.
  RankErrors run(const std::function<void(Engine&, std::size_t rank, GpuStream&)>& body) {
    return engines->run([&](Engine& engine, std::size_t rank) {
      const CurrentDevice current(gpus[rank]->device());
      GpuStream user(gpus[rank]->device());
      // Also after an error: a stream that is destroyed is not waited for.
      try {
        body(engine, rank, user);
      } catch (...) {
        fake().held = false;
        drain(user);
        throw;
      }
      drain(user);
    });
  }
  // Waits for what is on the stream, and for nothing else.
  static void drain(GpuStream& user) {
    cuda::Event event = user.lead(user.get());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!user.has_ended(event)) {
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("never drained");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    user.recycle(event);
  }
  // Everything that was made is given back, and nothing was called that NCCL forbids.
  std::string left() {
    engines.reset();
    gpus.clear();
    std::string text;
    // An abort's thread holds the device for a moment longer.
    for (int i = 0; i < 2000 && fake().contexts != contexts_; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (fake().contexts != contexts_) text += "contexts are left; ";
    if (fake().misuses != 0) text += std::to_string(fake().misuses) + " misuses; ";
    if (fake().redops != 0) text += "operators are left; ";
    return text;
  }

  std::vector<std::shared_ptr<RankGpu>> gpus;
  std::unique_ptr<EngineRanks> engines;
  std::atomic<int> troubles{0};  // that ranks' watches have told of

 private:
  int contexts_ = 0;
};

inline Operation on_gpu(OpKind kind, const void* input, void* output, std::size_t count,
                        GpuStream& user, const std::string& name = {},
                        hvd::ReduceOp op = hvd::ReduceOp::sum) {
  Operation operation;
  operation.kind = kind;
  operation.input = input;
  operation.output = output;
  operation.count = count;
  operation.reduction = {hvd::DataType::float32, op, 1, 1};
  operation.name = name;
  operation.device = std::make_shared<DeviceUse>();
  operation.device->stream = user.get();
  return operation;
}

// Copies on the stream, as a program's kernels would write and read.
inline void put(const RankGpu& gpu, GpuStream& user, void* to, const void* from,
                std::size_t bytes) {
  gpu.device().api().copy_on_device(cuda::device_pointer(to), cuda::device_pointer(from), bytes,
                                    user.get());
}

}  // namespace hvdrun::test
