#include "worker/labs/base/training_device.h"

#include <hvd/hvd.h>
#include <torch/torch.h>

namespace hvdrun {

at::Device choose_device(const std::string& name, std::string& error) {
  if (name == "cpu") return at::kCPU;
  if (hvd::gpu() >= 0 && torch::cuda::is_available())
    return {at::kCUDA, static_cast<at::DeviceIndex>(hvd::gpu())};
  if (name == "cuda")
    error = hvd::gpu() < 0
                ? "--device cuda: this rank has no GPU; --device cpu needs none"
                : "--device cuda: this LibTorch cannot use a GPU; --device cpu needs none";
  return at::kCPU;
}

at::Tensor on_device(const at::Tensor& tensor, at::Device device) {
  if (!device.is_cuda() || !tensor.device().is_cpu()) return tensor.to(device);
  // LibTorch's cache of pinned memory gives this to nobody else before the copy has been made.
  return tensor.pin_memory().to(device, /*non_blocking=*/true);
}

}  // namespace hvdrun
