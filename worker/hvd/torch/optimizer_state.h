// An optimizer's knowledge besides its parameters, as bytes: its state (momentum, step counts) and
// its options (learning rates).
#pragma once

#include <string>

#include <torch/torch.h>

namespace hvdrun {

std::string optimizer_state(torch::optim::Optimizer& optimizer);
// The bytes are of an optimizer of the same class with the same parameters in the same order.
// Tensors come to the device that the optimizer's parameters are on.
void set_optimizer_state(torch::optim::Optimizer& optimizer, const std::string& bytes);
// The options alone.
std::string optimizer_options(torch::optim::Optimizer& optimizer);
void set_optimizer_options(torch::optim::Optimizer& optimizer, const std::string& bytes);

}  // namespace hvdrun
