// One rank with memory on a GPU, for the conformance tests: real ones (tests/gpu) and the fake one
// of tests/unit/worker/hvd/gpu, which is why all goes through the same interface.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/gpu/gpu_error.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun::test {

using Bytes = std::vector<std::byte>;

// Memory of the GPU, freed at the end of its scope.
class DeviceBytes {
 public:
  DeviceBytes(const GpuDevice& device, std::size_t bytes) : api_(device.api()), bytes_(bytes) {
    check_cuda(api_, api_.memory_alloc(&memory_, bytes > 0 ? bytes : 1), "cuMemAlloc");
  }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { api_.memory_free(memory_); }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has its addresses as numbers
  void* get() const { return reinterpret_cast<void*>(memory_); }
  std::byte* at(std::size_t offset) const { return static_cast<std::byte*>(get()) + offset; }
  cuda::DevicePointer pointer() const { return memory_; }
  std::size_t size() const { return bytes_; }

 private:
  const cuda::Api& api_;
  cuda::DevicePointer memory_ = 0;
  std::size_t bytes_;
};

class GpuRank {
 public:
  // `user`: the stream of the program, which all copies are queued on.
  GpuRank(NcclCommunicator& own, const GpuDevice& on)
      : communicator(own), device(on), user(on), call{user.get(), std::chrono::seconds(60)} {}

  // Queued only: what follows on the stream sees it. `data` must live until download().
  void upload(const DeviceBytes& to, const Bytes& data) const {
    if (!data.empty())
      check_cuda(device.api(),
                 device.api().copy_to_device(to.pointer(), data.data(), data.size(), user.get()),
                 "cuMemcpyHtoDAsync");
  }
  // Waits for the user's stream, and for nothing else: it must be ordered after the collective.
  Bytes download(const DeviceBytes& from) {
    Bytes data(from.size());
    if (!data.empty())
      check_cuda(
          device.api(),
          device.api().copy_from_device(data.data(), from.pointer(), data.size(), user.get()),
          "cuMemcpyDtoHAsync");
    drain();
    return data;
  }
  void drain() {
    cuda::Event event = user.lead(user.get());
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!user.has_ended(event)) {
      if (const auto error = communicator.look(std::chrono::steady_clock::now()))
        throw hvd::Error(*error);
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("the user's stream does not end");
      std::this_thread::yield();
    }
    user.recycle(event);
  }

  NcclCommunicator& communicator;
  const GpuDevice& device;
  GpuStream user;
  GpuCall call;
};

}  // namespace hvdrun::test
