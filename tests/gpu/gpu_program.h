// The program's side of libhvd on a GPU.
#pragma once

#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/gpu/gpu_rank.h"
#include "worker/hvd/gpu/gpu_error.h"
#include "worker/hvd/gpu/stream.h"

namespace hvdrun::test {

inline constexpr const char* kDriverFile = "libcuda.so.1";

using Floats = std::vector<float>;

// Memory and a stream on the GPU that init() has taken.
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
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!user_.has_ended(event)) {
      if (std::chrono::steady_clock::now() > deadline)
        throw std::runtime_error("the stream does not end");
      std::this_thread::yield();
    }
    user_.recycle(event);
  }

  hvd::OperationOptions options;

 private:
  const GpuDevice& device_;
  GpuStream user_;
};

inline float* floats(const DeviceBytes& memory, std::size_t skip = 0) {
  return static_cast<float*>(memory.get()) + skip;
}

}  // namespace hvdrun::test
