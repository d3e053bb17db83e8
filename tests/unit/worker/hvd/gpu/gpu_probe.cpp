// Prints what the loader finds, for test_loader.cpp: in a process of its own, because a library
// once loaded stays, and LD_LIBRARY_PATH is read at the start.
#include <cstdio>
#include <cstdlib>

#include "worker/hvd/gpu/gpu_device.h"
#include "worker/hvd/gpu/kernels.h"
#include "worker/hvd/gpu/loader.h"

int main() {
  using namespace hvdrun;
  const auto driver = load_cuda_driver();
  if (driver.value)
    std::printf("driver: CUDA %s, %d\n", cuda_version_text(driver.value->version).c_str(),
                driver.value->devices);
  else
    std::printf("driver: %s\n", driver.why.c_str());
  const char* const file = std::getenv(kNcclLibraryVariable);
  const auto nccl = load_nccl(file != nullptr ? file : "");
  if (nccl.value)
    std::printf("nccl: %s from %s%s\n", nccl_version_text(nccl.value->version).c_str(),
                nccl.value->path.c_str(),
                nccl.value->api.comm_split != nullptr ? " with split" : "");
  else
    std::printf("nccl: %s\n", nccl.why.c_str());
  const auto kernels = load_gpu_kernels();
  std::printf("kernels: %s\n", kernels.value ? "found" : kernels.why.c_str());
  return 0;
}
