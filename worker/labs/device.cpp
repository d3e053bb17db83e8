#include "worker/labs/device.h"

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

}  // namespace hvdrun
