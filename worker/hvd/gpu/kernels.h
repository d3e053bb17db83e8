// libhvd_cuda.so at run time. Without it a GPU rank does all that NCCL does itself; what needs a
// kernel of ours is an error that says so.
#pragma once

#include <cstddef>
#include <string>

#include "worker/hvd/gpu/kernels_abi.h"
#include "worker/hvd/gpu/loader.h"

namespace hvdrun {

struct GpuKernels {
// NOLINTNEXTLINE(bugprone-macro-parentheses): they are names and lists of types
#define HVD_KERNEL_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  HVD_CUDA_KERNELS(HVD_KERNEL_MEMBER)
#undef HVD_KERNEL_MEMBER
  std::size_t (*adasum_scratch)() = nullptr;  // doubles
  const char* (*error_text)(int result) = nullptr;
};

// `file` empty: libhvd_cuda.so beside the library that this code is in, then where the loader finds
// it.
Loaded<GpuKernels> load_gpu_kernels(const std::string& file = {});

}  // namespace hvdrun
