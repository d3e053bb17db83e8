#include "worker/hvd/torch/adasum_step.h"

#include <utility>

#include "worker/hvd/torch/local_gradients.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

const hvd::DistributedOptimizerOptions& checked_for_adasum(
    const hvd::DistributedOptimizerOptions& options) {
  if (options.backward_passes_per_step < 1)
    invalid_tensor("DistributedOptimizer: backward_passes_per_step is " +
                   std::to_string(options.backward_passes_per_step) + "; at least 1");
  if (options.gradient_predivide_factor != 1)
    invalid_tensor(
        "DistributedOptimizer: gradient_predivide_factor splits the division of an "
        "average, and op is adasum");
  if (options.num_groups != 0 || !options.groups.empty())
    invalid_tensor("DistributedOptimizer: groups are of gradients, and op is adasum");
  if (!options.local.empty())
    invalid_tensor("DistributedOptimizer: local is of gradients, and op is adasum");
  return options;
}

}  // namespace

AdasumStep::AdasumStep(std::vector<at::Tensor> parameters,
                       const hvd::DistributedOptimizerOptions& options)
    : parameters_(std::move(parameters)), options_(checked_for_adasum(options)) {
  for (const at::Tensor& parameter : parameters_) check_tensor("DistributedOptimizer", parameter);
  next_round();
}

void AdasumStep::next_round() { contribution_ = Contribution::now(options_.process_set); }

at::Tensor AdasumStep::take(torch::optim::Optimizer& optimizer) {
  // Its moments would remember them.
  if (!contribution_.counts) zero_gradients(parameters_, false);
  std::vector<at::Tensor> before;
  {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters_) {
      before.push_back(parameter.detach().clone());
      if (options_.average_aggregated_gradients && parameter.grad().defined())
        parameter.mutable_grad().div_(options_.backward_passes_per_step);
    }
  }
  at::Tensor loss = optimizer.step();
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> changes;
  changes.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    changes.push_back(contribution_.counts ? parameters_[i] - before[i]
                                           : at::zeros_like(before[i]));
    at::Tensor(parameters_[i].detach()).copy_(before[i]);
  }
  changes = hvd::grouped_allreduce(changes, hvd::ReduceOp::adasum, {}, options_.compression,
                                   {name_, options_.process_set, {}});
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    at::Tensor(parameters_[i].detach()).add_(changes[i]);
  return loss;
}

}  // namespace hvdrun
