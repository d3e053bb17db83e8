// A model that takes images and gives class scores.
#pragma once

#include <torch/torch.h>

#include "worker/labs/models/registry.h"

namespace hvdrun {

class ImageModel : public torch::nn::Module {
 public:
  // Images [n, 1, 28, 28], normalised; gives log-probabilities [n, classes].
  virtual torch::Tensor forward(const torch::Tensor& images) = 0;
};

}  // namespace hvdrun
