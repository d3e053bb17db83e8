// Ranks as threads over the fake driver and NCCL. Catch2's assertions belong to the main thread:
// ranks throw, and the errors come back by rank.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <hvd/hvd.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/gpu/fake_gpu.h"
#include "tests/unit/worker/hvd/gpu/loaded_fake.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun::test {

using namespace std::chrono_literals;

inline void hold(cuda::Stream stream) {
  using Hold = void (*)(void*);
  static const Hold hold =
      reinterpret_cast<Hold>(::dlsym(::dlopen(fake_file(), RTLD_NOW | RTLD_LOCAL), "fake_hold"));
  fake().held = true;
  hold(stream);
}

inline void reset_fake() {
  FakeGpu& gpu = fake();
  gpu.devices = 8;
  gpu.init_hangs = false;
  gpu.init_result = 0;
  gpu.async_rank = -1;
  gpu.split_fails_rank = -1;
  gpu.splits = 0;
  gpu.group_end_hangs_rank = -1;
  gpu.abort_needs = 1;
  gpu.init_blocks_rank = -1;
  gpu.connects_late = false;
  gpu.aborts_held = false;
  gpu.nccl_calls = 0;
  gpu.aborts = 0;
  gpu.destroys = 0;
  gpu.shrink_flags = -1;
  gpu.largest_scratch = 0;
  gpu.misuses = 0;
  gpu.held = false;
  gpu.new_streams_held = false;
  gpu.closed = false;
  gpu.context_result = 0;
  gpu.context_hangs = false;
  gpu.nvml_lists_me = true;
  gpu.nvml_lists_dead = 0;
  gpu.nvml_result = 0;
  gpu.clock_ahead = 0;
  const std::lock_guard lock(gpu.mutex);
  gpu.logging = false;
  gpu.calls.clear();
  gpu.last_error.clear();
}

class FakeRanks {
 public:
  // Not connected yet.
  explicit FakeRanks(int size, std::size_t key_bytes = GpuParts{}.key_bytes)
      : key_bytes_(key_bytes) {
    reset_fake();
    auto driver = load_cuda_driver(fake_file());
    auto nccl = load_nccl(fake_file());
    auto kernels = load_gpu_kernels(fake_file());
    REQUIRE(driver.value);
    REQUIRE(nccl.value);
    REQUIRE(kernels.value);
    driver_ = std::move(driver.value);
    nccl_ = std::move(nccl.value);
    kernels_ = std::move(kernels.value);
    id_ = NcclCommunicator::make_id(*nccl_);
    for (int rank = 0; rank < size; ++rank) {
      devices.push_back(std::make_shared<GpuDevice>(*driver_, rank));
      communicators.push_back(std::make_unique<NcclCommunicator>(parts(rank), rank, size));
    }
  }

  GpuParts parts(int rank) const {
    return {driver_, nccl_, devices[static_cast<std::size_t>(rank)], kernels_, "", key_bytes_};
  }
  const nccl::UniqueId& id() const { return id_; }

  // `body` on a thread for each rank; what each has thrown, empty where nothing.
  std::vector<std::string> run(const std::function<void(int)>& body) const {
    std::vector<std::string> errors(communicators.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < communicators.size(); ++rank)
      threads.emplace_back([&, rank] {
        // As hvd::init leaves it: the rank's device is current on its thread.
        devices[rank]->api().context_set_current(devices[rank]->context());
        try {
          body(static_cast<int>(rank));
        } catch (const std::exception& error) {
          errors[rank] = error.what();
          if (errors[rank].empty()) errors[rank] = "an error without words";
        }
      });
    for (std::thread& thread : threads) thread.join();
    return errors;
  }

  std::vector<std::string> connect(std::chrono::milliseconds timeout = 20s) const {
    return run([&](int rank) { at(rank).connect(id_, timeout); });
  }
  NcclCommunicator& at(int rank) const { return *communicators[static_cast<std::size_t>(rank)]; }

 private:
  const std::size_t key_bytes_;
  std::shared_ptr<const CudaDriver> driver_;
  std::shared_ptr<const NcclLibrary> nccl_;
  std::shared_ptr<const GpuKernels> kernels_;
  nccl::UniqueId id_{};

 public:
  std::vector<std::shared_ptr<const GpuDevice>> devices;
  std::vector<std::unique_ptr<NcclCommunicator>> communicators;
};

inline std::vector<std::string> nothing_wrong(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

// One float for each rank, summed.
inline GpuTicket sum_one(NcclCommunicator& communicator, float& value,
                         cuda::Stream stream = nullptr, std::chrono::milliseconds timeout = 20s) {
  return communicator.allreduce(&value, &value, 1, {hvd::DataType::float32, hvd::ReduceOp::sum},
                                {stream, timeout});
}

}  // namespace hvdrun::test
