// What every lab model is to the training and to `train --describe`.
#pragma once

#include <cstdint>

#include <torch/torch.h>

#include "worker/labs/models/registry.h"

namespace hvdrun {

class LabModel : public torch::nn::Module {
 public:
  // A batch [n, ...] as example() has it; gives log-probabilities [n, classes], or for yes and no
  // one logit [n, 1].
  virtual torch::Tensor forward(const torch::Tensor& batch) = 0;
  // What the recipe adds to the loss, L2 on weights say; undefined: nothing.
  virtual torch::Tensor penalty() const { return {}; }
  // Some batch of `n`: the shape and type that forward() takes.
  virtual torch::Tensor example(std::int64_t n) const = 0;
};

}  // namespace hvdrun
