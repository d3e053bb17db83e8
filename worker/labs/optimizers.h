// The optimizers of `train` by name: SGD and Adam, which are torch's, and two for large batches,
// whose step is scaled layer by layer (each parameter tensor is a layer). These keep Adam's options
// and Adam's state, so that a checkpoint has them as it has Adam's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

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

// `name` is one of optimizer_names() in recipe.h; momentum is SGD's.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& name,
                                                        std::vector<torch::Tensor> parameters,
                                                        double lr, double momentum);

}  // namespace hvdrun
