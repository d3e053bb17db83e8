#include "worker/torch/cuda_stream.h"

#ifdef HVD_TORCH_CUDA
#include <c10/cuda/CUDAStream.h>
#endif
#include <hvd/hvd.h>

namespace hvdrun {

#ifdef HVD_TORCH_CUDA

bool knows_cuda() { return true; }

void* current_cuda_stream(std::int8_t device) {
  return c10::cuda::getCurrentCUDAStream(device).stream();
}

#else

bool knows_cuda() { return false; }

void* current_cuda_stream(std::int8_t /*device*/) {
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   "libhvd_torch was built with a LibTorch that has no CUDA");
}

#endif

}  // namespace hvdrun
