// Dropout that can follow the samples: then what a sample loses in a step is the same, whichever
// rank has it, and whatever other samples are in its batch. An elastic job needs that, because a
// step may be repeated by other ranks. Other jobs draw as LibTorch's own layers do.
//
// Works on one thread, on every device.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>
#include <torch/types.h>

namespace hvdrun {

// The next forward pass in training has these samples, one number each, in the order of the batch.
// Equal numbers lose the same. `device`: where the batch is. None: LibTorch's generator draws
// again.
void draw_dropout_by_sample(const std::vector<std::uint64_t>& samples, at::Device device);

class SampleDropoutImpl : public torch::nn::Module {
 public:
  enum class What : std::uint8_t { elements, channels };

  // Drops each of them with the probability `p`, from 0 to 1.
  explicit SampleDropoutImpl(double p, What what = What::elements) : p_(p), what_(what) {}

  // N x C x ...; the first dimension is the samples'. What stays is scaled by 1 / (1 - p). Throws
  // c10::Error where the batch has another number of samples than was said.
  torch::Tensor forward(const torch::Tensor& input);

 private:
  double p_;
  What what_;
};
TORCH_MODULE(SampleDropout);

}  // namespace hvdrun
