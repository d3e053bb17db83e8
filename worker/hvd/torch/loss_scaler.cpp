#include <cmath>
#include <set>
#include <vector>

#include <hvd/torch.h>

#include "worker/hvd/torch/tensor_types.h"

namespace hvd {

LossScaler::LossScaler(const LossScalerOptions& options)
    : options_(options), scale_(options.initial_scale) {
  const bool sound = std::isfinite(scale_) && scale_ > 0 && options.growth_factor >= 1 &&
                     std::isfinite(options.growth_factor) && options.backoff_factor > 0 &&
                     options.backoff_factor < 1 && options.growth_interval >= 1;
  if (!sound)
    hvdrun::invalid_tensor(
        "LossScaler: initial_scale above 0, growth_factor from 1 on, backoff_factor between 0 and "
        "1, growth_interval from 1 on");
}

at::Tensor LossScaler::scale(const at::Tensor& loss) {
  // Other gradients: those that were unscaled before have been dropped without a step.
  unscaled_ = false;
  return loss * scale_;
}

bool LossScaler::unscale(DistributedOptimizer& optimizer) {
  if (optimizer_ != nullptr && optimizer_ != &optimizer)
    hvdrun::invalid_tensor("LossScaler: one for each optimizer");
  optimizer_ = &optimizer;
  if (unscaled_) return finite_;
  optimizer.synchronize();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  std::set<const at::TensorImpl*> seen;  // a shared parameter may stand in an optimizer twice
  for (const auto& group : optimizer.optimizer().param_groups())
    for (const at::Tensor& parameter : group.params())
      if (parameter.defined() && parameter.grad().defined() &&
          seen.insert(parameter.unsafeGetTensorImpl()).second)
        gradients.push_back(parameter.grad());
  // One read of the device for all of them.
  at::Tensor all_finite;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor one = at::isfinite(gradient.is_sparse() ? gradient._values() : gradient).all();
    all_finite = all_finite.defined() ? all_finite.logical_and(one) : one;
  }
  const bool counts = elastic::contributor_rank() >= 0;
  float overflow = counts && all_finite.defined() && !all_finite.item<bool>() ? 1 : 0;
  // Averaged gradients are the same everywhere; with adasum, or changed in between, they are not.
  allreduce(&overflow, &overflow, 1, ReduceOp::max, {}, {{}, optimizer.options().process_set, {}});
  for (at::Tensor& gradient : gradients) gradient.div_(scale_);
  finite_ = overflow == 0;
  unscaled_ = true;
  return finite_;
}

bool LossScaler::step(DistributedOptimizer& optimizer) {
  const bool finite = unscale(optimizer);
  unscaled_ = false;
  if (!finite) {
    elastic::catch_up();  // the step ends here
    scale_ *= options_.backoff_factor;
    steps_without_overflow_ = 0;
    optimizer.zero_grad();
    return false;
  }
  optimizer.step();
  if (++steps_without_overflow_ == options_.growth_interval) {
    steps_without_overflow_ = 0;
    scale_ *= options_.growth_factor;
  }
  return true;
}

}  // namespace hvd
