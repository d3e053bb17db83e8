// The optimizers of `train` by name: SGD and Adam, which are torch's, and two for large batches,
// whose step is scaled layer by layer (each parameter tensor is a layer). These keep Adam's options
// and Adam's state, so that a checkpoint has them as it has Adam's.
#pragma once

#include <memory>
#include <vector>

#include <torch/torch.h>

#include "worker/labs/models/recipe.h"

namespace hvdrun {

// LAMB (You et al., arXiv 1904.00962, algorithm 2, with the identity for its function of the norm):
// Adam's direction plus weight_decay times the weights, as long as the layer's weights are, times
// lr.
class Lamb final : public torch::optim::Adam {
 public:
  explicit Lamb(std::vector<torch::Tensor> parameters, double lr);
  torch::Tensor step(LossClosure closure = nullptr) override;
};

// NovoGrad (Ginsburg et al., arXiv 1905.11286, algorithm 1): momentum of gradients that are each
// divided by a running mean of their layer's norm; one second moment a layer.
class NovoGrad final : public torch::optim::Adam {
 public:
  explicit NovoGrad(std::vector<torch::Tensor> parameters, double lr);
  torch::Tensor step(LossClosure closure = nullptr) override;
};

// The recipe's, with its momentum (SGD's alone) and weight decay; its rate is that of one rank,
// `lr` that of all. Throws c10::Error where the recipe names none of optimizer_names().
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const Recipe& recipe,
                                                        std::vector<torch::Tensor> parameters,
                                                        double lr);

// Gives an optimizer of make_optimizer(), which has perhaps been loaded from another run's file,
// these numbers again.
void set_options(torch::optim::Optimizer& optimizer, const Recipe& recipe, double lr);

}  // namespace hvdrun
