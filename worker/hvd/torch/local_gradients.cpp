#include "worker/hvd/torch/local_gradients.h"

#include <utility>

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {

LocalGradients::LocalGradients(std::vector<at::Tensor> parameters,
                               const hvd::DistributedOptimizerOptions& options)
    : parameters_(std::move(parameters)) {
  for (const at::Tensor& parameter : parameters_)
    for (const at::Tensor& sparse : options.sparse)
      if (parameter.is_same(sparse))
        invalid_tensor("DistributedOptimizer: a parameter is in local and in sparse");
  if (options.average_aggregated_gradients) divisor_ = options.backward_passes_per_step;
  if (options.scale_local_gradients && options.op == hvd::ReduceOp::average)
    averaged_over_ = options.process_set;
  next_round();
}

void LocalGradients::finish() {
  if (finished_) return;
  const at::NoGradGuard no_grad;
  const Contribution& mine = contribution_;
  const double divisor = averaged_over_ ? divisor_ * mine.contributors : divisor_;
  for (at::Tensor& parameter : parameters_) {
    if (!parameter.grad().defined()) continue;
    if (!mine.counts) parameter.mutable_grad().zero_();
    if (divisor != 1) parameter.mutable_grad().div_(divisor);
  }
  finished_ = true;
}

void LocalGradients::next_round() {
  contribution_ = Contribution::now(averaged_over_.value_or(hvd::ProcessSet{}));
  finished_ = false;
}

void LocalGradients::zero(bool set_to_none) {
  zero_gradients(parameters_, set_to_none);
  next_round();
}

void zero_gradients(const std::vector<at::Tensor>& parameters, bool set_to_none) {
  for (const at::Tensor& parameter : parameters) {
    at::Tensor& gradient = parameter.mutable_grad();
    if (set_to_none)
      gradient.reset();
    else if (gradient.defined())
      gradient = gradient.detach().zero_();
  }
}

}  // namespace hvdrun
