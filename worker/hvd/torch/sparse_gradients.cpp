#include "worker/hvd/torch/sparse_gradients.h"

#include <algorithm>
#include <utility>

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

constexpr std::int64_t kSparseDimensions = 1;  // whole rows

at::Tensor as_sparse(const at::Tensor& parameter, bool counts) {
  const at::Tensor& gradient = parameter.grad();
  if (gradient.defined() && counts)
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
  contribution_ = Contribution::now(options_.process_set);
  before_ = look();
}

std::vector<SparseGradients::Seen> SparseGradients::look() const {
  std::vector<Seen> seen;
  seen.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    const at::Tensor& gradient = parameter.grad();
    seen.emplace_back(gradient.defined() ? gradient.unsafeGetTensorImpl() : nullptr,
                      gradient.defined() ? gradient._version() : 0);
  }
  return seen;
}

void SparseGradients::finish() {
  if (finished_) return;
  // A program that catches the error and steps again must not step on its own rows.
  if (failure_) std::rethrow_exception(failure_);
  try {
    reduce();
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
  finished_ = true;
}

void SparseGradients::reduce() {
  const at::NoGradGuard no_grad;
  const Contribution& mine = contribution_;
  std::vector<hvd::TensorHandle> handles;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    handles.push_back(hvd::sparse_allreduce_async(
        as_sparse(parameters_[i], mine.counts), mine.operation(options_.op),
        {name_ + ".sparse." + std::to_string(i), options_.process_set, {}}));
  // All of them, even after an error.
  std::exception_ptr first;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    try {
      at::Tensor gradient = hvd::synchronize(handles[i]);
      if (const double divisor = 1 / mine.factors(options_.op, {}).postscale; divisor != 1)
        gradient.div_(divisor);
      if (options_.average_aggregated_gradients) gradient.div_(options_.backward_passes_per_step);
      parameters_[i].mutable_grad() = std::move(gradient);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

void SparseGradients::next_round() {
  finished_ = false;
  failure_ = nullptr;
  contribution_ = Contribution::now(options_.process_set);
  before_ = look();
}

void SparseGradients::zero(bool begun) {
  if (begun && !failure_) finish();
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
  next_round();
}

}  // namespace hvdrun
