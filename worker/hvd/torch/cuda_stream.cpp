#include "worker/hvd/torch/cuda_stream.h"

#include <mutex>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
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

std::optional<c10::Stream> current_stream(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return std::nullopt;
  return c10::impl::VirtualGuardImpl(at::kCUDA).getStream(tensor.device());
}

void continue_after(const std::optional<c10::Stream>& submitted) {
  if (!submitted) return;
  const c10::impl::VirtualGuardImpl guard(at::kCUDA);
  const c10::Stream current = guard.getStream(submitted->device());
  if (current == *submitted) return;
  c10::Event event(at::kCUDA);
  event.record(*submitted);
  event.block(current);
}

void keep_for_gpu(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return;
  // Never destroyed on purpose.
  static auto* const kept = new std::vector<at::Tensor>();
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  kept->push_back(tensor);
}

}  // namespace hvdrun
