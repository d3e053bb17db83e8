// Results of collectives that autograd goes back through: what follows in backward() is a
// collective again, so every rank has to go back through it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <hvd/torch.h>

namespace hvdrun {

// From the gradients of all outputs to those of all inputs, in their order; none is undefined.
using Backward = std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)>;

// Autograd records, and one of them requires a gradient.
bool needs_gradient(const std::vector<at::Tensor>& inputs);

// Makes new tensors, without a history of their own, the results of `backward`'s operation on
// `inputs`.
void set_backward(const char* name, const std::vector<at::Tensor>& inputs,
                  std::vector<at::Tensor>& outputs, Backward backward);
void set_backward(const char* name, const at::Tensor& input, at::Tensor& output,
                  std::function<at::Tensor(const at::Tensor&)> backward);

// The options of the operation in backward(): "NAME.grad", of the same process set.
hvd::OperationOptions backward_options(const hvd::OperationOptions& options);

// Average and sum are linear; a gradient of another one ends in Error(invalid_argument).
void check_linear(const char* what, hvd::ReduceOp op);

// The factor by which an average or sum of the process set's ranks multiplies each rank's elements.
double scattered_factor(hvd::ReduceOp op, const hvd::ScaleFactors& scale,
                        const hvd::OperationOptions& options);

// The adjoint of an allgather: `rows[r]` rows of the sum over all ranks for rank r.
at::Tensor sum_of_own_rows(const at::Tensor& gradient, const std::vector<std::int64_t>& rows,
                           const hvd::OperationOptions& options);

// The adjoint of a reducescatter: all ranks' rows of tensors that have as many, in one operation.
// Those of a rank that has joined are zeros.
std::vector<at::Tensor> gathered_gradients(const std::vector<at::Tensor>& gradients,
                                           const std::vector<std::int64_t>& rows,
                                           const hvd::OperationOptions& options);

}  // namespace hvdrun
