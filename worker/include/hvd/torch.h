// hvd for LibTorch: tensors, a distributed optimizer, parameter broadcast. C++17; link with
// libhvd_torch (pkg-config hvd_torch) besides LibTorch.
//
// Errors and threads as in <hvd/hvd.h>. Tensors are dense CPU tensors of a floating-point (16, 32,
// 64 bits, bfloat16), integer or bool dtype; others throw Error(invalid_argument) that names the
// dtype or device.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <hvd/hvd.h>
#include <torch/torch.h>

namespace hvd {

// The reduced values in a new tensor of the same shape and dtype.
HVD_EXPORT at::Tensor allreduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                                const ScaleFactors& scale = {});
// In place.
HVD_EXPORT void allreduce_(at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                           const ScaleFactors& scale = {});
// The tensors of all ranks, concatenated along dimension 0 in rank order. Same shape everywhere,
// at least one dimension.
HVD_EXPORT at::Tensor allgather(const at::Tensor& tensor);
// Overwrites the tensor with that of rank `root`, in place.
HVD_EXPORT void broadcast_(at::Tensor& tensor, int root = 0);

// Rank `root`'s parameters and buffers to everybody, in place, in the module's own order.
HVD_EXPORT void broadcast_parameters(torch::nn::Module& module, int root = 0);

// The mean of a number over all ranks (a loss, an accuracy).
HVD_EXPORT double metric_average(double value);

struct DistributedOptimizerOptions {
  ReduceOp op = ReduceOp::average;
  // Gradients travel in flat buckets of about this size; one is reduced as soon as backward has
  // produced all its gradients, while backward goes on with the next.
  std::size_t bucket_bytes = std::size_t{4} << 20;
};

// Makes any torch::optim optimizer a distributed one: step() averages the gradients over all ranks
// and then takes the optimizer's own step. The optimizer must outlive this object, and its
// parameters must be the same on all ranks, in the same order.
//
//   torch::optim::SGD sgd(model->parameters(), 0.01 * hvd::size());
//   hvd::DistributedOptimizer optimizer(sgd);
//   ... optimizer.zero_grad(); loss.backward(); optimizer.step();
//
// From construction on every parameter's .grad is a tensor over this object's bucket memory, with
// the parameter's sizes and strides. A .grad that the program replaces or resets is noticed, copied
// and bound again by step(); once its reduction has begun (backward has run), call synchronize()
// before replacing it, or step() throws Error(invalid_argument). Destroying the object gives the
// parameters gradients of their own again. One backward() per step(): a second one before step()
// throws Error(invalid_argument). Not thread-safe.
class HVD_EXPORT DistributedOptimizer {
 public:
  explicit DistributedOptimizer(torch::optim::Optimizer& optimizer,
                                const DistributedOptimizerOptions& options = {});
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Sets all gradients to zero, in place.
  void zero_grad();
  // Waits until all gradients are reduced, without taking the step (to clip them, say). step() then
  // does not reduce again.
  void synchronize();
  // synchronize(), then the optimizer's step().
  torch::Tensor step();

  torch::optim::Optimizer& optimizer();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvd
