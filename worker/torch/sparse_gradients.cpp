#include "worker/torch/sparse_gradients.h"

#include <utility>

#include "worker/torch/tensor_types.h"

namespace hvdrun {
namespace {

constexpr std::int64_t kSparseDimensions = 1;  // whole rows

at::Tensor as_sparse(const at::Tensor& parameter) {
  const at::Tensor& gradient = parameter.grad();
  if (gradient.defined())
    return gradient.is_sparse() ? gradient : gradient.to_sparse(kSparseDimensions);
  std::vector<std::int64_t> no_rows = parameter.sizes().vec();
  no_rows[0] = 0;
  return at::sparse_coo_tensor(
      at::empty({kSparseDimensions, 0}, parameter.options().dtype(at::kLong)),
      at::empty(no_rows, parameter.options()), parameter.sizes());
}

}  // namespace

SparseGradients::SparseGradients(std::vector<at::Tensor> parameters,
                                 const hvd::DistributedOptimizerOptions& options)
    : parameters_(std::move(parameters)), options_(options) {
  if (parameters_.empty()) return;
  if (options.op != hvd::ReduceOp::average && options.op != hvd::ReduceOp::sum)
    invalid_tensor("DistributedOptimizer: sparse gradients have only average and sum");
  for (const at::Tensor& parameter : parameters_) {
    check_tensor("DistributedOptimizer", parameter);
    if (parameter.dim() == 0) invalid_tensor("DistributedOptimizer: sparse: a tensor without rows");
  }
}

void SparseGradients::finish() {
  if (std::exchange(finished_, true)) return;
  const at::NoGradGuard no_grad;
  std::vector<hvd::TensorHandle> handles;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    handles.push_back(hvd::sparse_allreduce_async(
        as_sparse(parameters_[i]), options_.op,
        {name_ + ".sparse." + std::to_string(i), options_.process_set, {}}));
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor gradient = hvd::synchronize(handles[i]);
    if (options_.average_aggregated_gradients) gradient.div_(options_.backward_passes_per_step);
    parameters_[i].mutable_grad() = std::move(gradient);
  }
}

void SparseGradients::zero() {
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  finished_ = false;
}

}  // namespace hvdrun
