#include "worker/labs/train/optimizers.h"

#include <cmath>
#include <sstream>
#include <type_traits>
#include <utility>

namespace hvdrun {
namespace {

using torch::optim::AdamOptions;
using torch::optim::AdamParamState;
using torch::optim::Optimizer;

// Older versions of torch write the address down, newer ones take it as it is.
template <typename States>
auto key_of(const States& /*states*/, const torch::Tensor& parameter) {
  using Key = typename States::key_type;
  if constexpr (std::is_same_v<Key, std::string>) {
    // As c10::guts::to_string() does it, which newer versions do not have.
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return static_cast<Key>(parameter.unsafeGetTensorImpl());
  }
}

// The state of a parameter; at its first step a new one of zeros.
AdamParamState& state_of(Optimizer& optimizer, const torch::Tensor& parameter,
                         const torch::Tensor& second_moment_like) {
  auto& states = optimizer.state();
  const auto key = key_of(states, parameter);
  auto found = states.find(key);
  if (found == states.end()) {
    auto fresh = std::make_unique<AdamParamState>();
    fresh->step(0);
    fresh->exp_avg(torch::zeros_like(parameter));
    fresh->exp_avg_sq(torch::zeros_like(second_moment_like));
    found = states.emplace(key, std::move(fresh)).first;
  }
  auto& state = static_cast<AdamParamState&>(*found->second);
  state.step(state.step() + 1);
  return state;
}

// Runs the closure, then update(parameter, gradient, options) for each parameter that has one.
template <typename Update>
torch::Tensor step_each(Optimizer& optimizer, const Optimizer::LossClosure& closure,
                        const Update& update) {
  torch::Tensor loss;
  if (closure) {
    const torch::AutoGradMode with_grad(true);
    loss = closure();
  }
  const torch::NoGradGuard no_grad;
  for (auto& group : optimizer.param_groups()) {
    const auto& options = static_cast<const AdamOptions&>(group.options());
    for (torch::Tensor& parameter : group.params()) {
      if (!parameter.grad().defined()) continue;
      TORCH_CHECK(!parameter.grad().is_sparse(), "layer-wise optimizers take dense gradients only");
      update(parameter, parameter.grad(), options);
    }
  }
  return loss;
}

AdamOptions layerwise_options(double lr, double beta1, double beta2, double eps) {
  return AdamOptions(lr).betas({beta1, beta2}).eps(eps);
}

}  // namespace

Lamb::Lamb(std::vector<torch::Tensor> parameters, double lr)
    : Adam(std::move(parameters), layerwise_options(lr, 0.9, 0.999, 1e-6)) {}

torch::Tensor Lamb::step(LossClosure closure) {
  return step_each(
      *this, closure,
      [this](torch::Tensor& parameter, const torch::Tensor& gradient, const AdamOptions& options) {
        AdamParamState& state = state_of(*this, parameter, parameter);
        const auto [beta1, beta2] = options.betas();
        const auto steps = static_cast<double>(state.step());
        state.exp_avg().mul_(beta1).add_(gradient, 1 - beta1);
        state.exp_avg_sq().mul_(beta2).addcmul_(gradient, gradient, 1 - beta2);
        const torch::Tensor mean = state.exp_avg() / (1 - std::pow(beta1, steps));
        const torch::Tensor deviation = (state.exp_avg_sq() / (1 - std::pow(beta2, steps))).sqrt();
        const torch::Tensor direction =
            (mean / (deviation + options.eps())).add_(parameter, options.weight_decay());
        // On the device: no host waits. A layer of zeros, or one that stands still, has no ratio.
        const torch::Tensor length = parameter.norm();
        const torch::Tensor reach = direction.norm();
        const torch::Tensor ratio = torch::where((length > 0).logical_and(reach > 0),
                                                 length / reach, torch::ones_like(reach));
        parameter.sub_(direction * (options.lr() * ratio));
      });
}

NovoGrad::NovoGrad(std::vector<torch::Tensor> parameters, double lr)
    : Adam(std::move(parameters), layerwise_options(lr, 0.95, 0.98, 1e-8)) {}

torch::Tensor NovoGrad::step(LossClosure closure) {
  return step_each(
      *this, closure,
      [this](torch::Tensor& parameter, const torch::Tensor& gradient, const AdamOptions& options) {
        const torch::Tensor square = gradient.square().sum();
        AdamParamState& state = state_of(*this, parameter, square);
        const auto [beta1, beta2] = options.betas();
        if (state.step() == 1) {
          state.exp_avg_sq().copy_(square);
        } else {
          state.exp_avg_sq().mul_(beta2).add_(square, 1 - beta2);
        }
        const torch::Tensor scaled = (gradient / (state.exp_avg_sq().sqrt() + options.eps()))
                                         .add_(parameter, options.weight_decay());
        state.exp_avg().mul_(beta1).add_(scaled);
        parameter.sub_(state.exp_avg(), options.lr());
      });
}

std::unique_ptr<Optimizer> make_optimizer(const Recipe& recipe,
                                          std::vector<torch::Tensor> parameters, double lr) {
  std::unique_ptr<Optimizer> optimizer;
  if (recipe.optimizer == "adam")
    optimizer = std::make_unique<torch::optim::Adam>(std::move(parameters), lr);
  else if (recipe.optimizer == "lamb")
    optimizer = std::make_unique<Lamb>(std::move(parameters), lr);
  else if (recipe.optimizer == "novograd")
    optimizer = std::make_unique<NovoGrad>(std::move(parameters), lr);
  else if (recipe.optimizer == "sgd")
    optimizer = std::make_unique<torch::optim::SGD>(std::move(parameters), lr);
  TORCH_CHECK(optimizer, "no optimizer of the name ", recipe.optimizer);
  set_options(*optimizer, recipe, lr);
  return optimizer;
}

void set_options(Optimizer& optimizer, const Recipe& recipe, double lr) {
  for (auto& group : optimizer.param_groups()) {
    auto& options = group.options();
    options.set_lr(lr);
    if (auto* const sgd = dynamic_cast<torch::optim::SGDOptions*>(&options))
      sgd->momentum(recipe.momentum).weight_decay(recipe.weight_decay);
    else
      static_cast<AdamOptions&>(options).weight_decay(recipe.weight_decay);
  }
}

}  // namespace hvdrun
