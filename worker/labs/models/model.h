// A lab model as the training and `train --describe` see it.
#pragma once

#include <cstdint>
#include <vector>

#include <torch/torch.h>

#include "worker/labs/data/text/word_vectors.h"
#include "worker/labs/models/batch_norm.h"
#include "worker/labs/models/registry.h"

namespace hvdrun {

class LabModel : public torch::nn::Module {
 public:
  // A batch [n, ...] as example() has it; gives log-probabilities [n, classes], or for yes and no
  // one logit [n, 1].
  virtual torch::Tensor forward(const torch::Tensor& batch) = 0;
  // The loss of what forward() gave, the mean over the batch. With `class_weights` (float
  // [classes], or undefined) each sample counts so much, and the sum is still divided by their
  // number: so the mean of the ranks' losses is that of all their samples.
  virtual torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels,
                             const torch::Tensor& class_weights = {}) const {
    if (!class_weights.defined()) return torch::nll_loss(output, labels);
    return torch::nll_loss(output, labels, class_weights, at::Reduction::Sum) /
           static_cast<double>(labels.size(0));
  }
  // The class of each sample, int64 [n].
  virtual torch::Tensor predict(const torch::Tensor& output) const { return output.argmax(1); }
  // Kernels of convolutions pixel by pixel, as NHWC images want them. Before an optimizer has them.
  void to_channels_last() {
    const torch::NoGradGuard no_grad;
    for (torch::Tensor& parameter : parameters())
      if (parameter.dim() == 4)
        parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
  }
  // Batches are normalised over all ranks. False for a model without such layers.
  bool normalise_over_all_ranks() {
    bool found = false;
    for (const auto& module : modules(/*include_self=*/false)) {
      auto* const layer = module->as<BatchNorm2dImpl>();
      if (layer == nullptr) continue;
      layer->over_all_ranks();
      found = true;
    }
    return found;
  }
  // Begins with these vectors for the words that have one; false for a model without words.
  virtual bool set_word_vectors(const WordVectors& /*vectors*/) { return false; }
  // The vectors of words, which --freeze-embedding keeps as they are; empty for a model without.
  virtual std::vector<torch::Tensor> word_parameters() const { return {}; }
  // From now on backward() gives them sparse gradients; false for a model without words.
  virtual bool make_word_gradients_sparse() { return false; }
  // The recipe's addition to the loss, L2 on weights say; undefined: nothing.
  virtual torch::Tensor penalty() const { return {}; }
  // Some batch of `n`: the shape and type that forward() takes.
  virtual torch::Tensor example(std::int64_t n) const = 0;
};

}  // namespace hvdrun
