// hvd for LibTorch: tensors, a distributed optimizer, parameter broadcast. C++17; link with
// libhvd_torch (pkg-config hvd_torch) besides LibTorch.
//
// Errors and threads as in <hvd/hvd.h>. Tensors are dense, of a floating-point (16, 32, 64 bits,
// bfloat16), integer or bool dtype. They are on the CPU or, with a LibTorch for CUDA, on this
// rank's GPU (hvd::gpu()), the same on all ranks. Others throw Error(invalid_argument) that names
// the dtype or device. On a GPU no host waits: results are there for what is queued on the current
// stream afterwards. OperationOptions as there: a name, a process set, whose size and ranks then
// count in place of the job's. The shape is the tensor's own, and ranks must agree on it, in groups
// on that of each tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <hvd/callbacks.h>
#include <hvd/elastic.h>
#include <hvd/hvd.h>
#include <hvd/loss_scaler.h>
#include <hvd/sync_batch_norm.h>
#include <hvd/tensor_handle.h>
#include <torch/torch.h>

namespace hvd {

// -- Gradients --
// allreduce, broadcast, allgather, reducescatter, their grouped forms and alltoall give
// results that autograd goes back through, if a tensor requires a gradient and autograd records.
// The gradient is that of the sum of all ranks' losses; of a reduction, with its own op and scale
// factors (average or sum, else backward() throws Error(invalid_argument)). In backward() a
// collective follows, "NAME.grad", that every rank must come to, in the same order as the others:
// a tensor that requires a gradient on one rank does so on all of them, and has a part in each
// loss. The same calls in place or with handles are not gone back through.

// The reduced values in a new tensor of the same shape and dtype.
HVD_EXPORT at::Tensor allreduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                                const ScaleFactors& scale = {},
                                Compression compression = Compression::none,
                                const OperationOptions& options = {});
// In place.
HVD_EXPORT void allreduce_(at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                           const ScaleFactors& scale = {},
                           Compression compression = Compression::none,
                           const OperationOptions& options = {});
// Many tensors at once, one operation for each dtype among them (with a name: "NAME.Float"); the
// results are new tensors. adasum gives each of them a sum of its own.
HVD_EXPORT std::vector<at::Tensor> grouped_allreduce(const std::vector<at::Tensor>& tensors,
                                                     ReduceOp op = ReduceOp::average,
                                                     const ScaleFactors& scale = {},
                                                     Compression compression = Compression::none,
                                                     const OperationOptions& options = {});
// In place.
HVD_EXPORT void grouped_allreduce_(const std::vector<at::Tensor>& tensors,
                                   ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {},
                                   Compression compression = Compression::none,
                                   const OperationOptions& options = {});
// A new tensor like that of rank `root`; all ranks bring one of its shape and dtype.
HVD_EXPORT at::Tensor broadcast(const at::Tensor& tensor, int root = 0,
                                const OperationOptions& options = {});
// Overwrites the tensor with that of rank `root`, in place.
HVD_EXPORT void broadcast_(at::Tensor& tensor, int root = 0, const OperationOptions& options = {});

// -- The three below --
// Dimension 0 counts rows. Tensors have at least one dimension; the others, and
// the dtype, are the same everywhere, or every rank throws Error(mismatch) that names both sides. A
// rank whose tensor has none, or whose splits are wrong, throws Error(invalid_argument) instead.

// The rows of all ranks in rank order. Each rank may have its own number of them, 0 too.
HVD_EXPORT at::Tensor allgather(const at::Tensor& tensor, const OperationOptions& options = {});
// This rank's rows of the reduced tensor: the first (rows mod size()) ranks get one more than the
// others. All ranks have the same number of rows; average and sum only.
HVD_EXPORT at::Tensor reducescatter(const at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                                    const ScaleFactors& scale = {},
                                    Compression compression = Compression::none,
                                    const OperationOptions& options = {});
// Many tensors at once, each with rows of its own; after one exchange of the rows of all.
HVD_EXPORT std::vector<at::Tensor> grouped_allgather(const std::vector<at::Tensor>& tensors,
                                                     const OperationOptions& options = {});
HVD_EXPORT std::vector<at::Tensor> grouped_reducescatter(
    const std::vector<at::Tensor>& tensors, ReduceOp op = ReduceOp::average,
    const ScaleFactors& scale = {}, Compression compression = Compression::none,
    const OperationOptions& options = {});
// splits[r] rows go to rank r, in rank order; rows beyond their sum go nowhere. Without splits each
// rank gets the same number, and the rows must be a multiple of size().
struct AlltoallResult {
  at::Tensor tensor;                          // what came, in rank order
  std::vector<std::int64_t> received_splits;  // rows from each rank
};
HVD_EXPORT AlltoallResult alltoall(const at::Tensor& tensor,
                                   const std::vector<std::int64_t>& splits = {},
                                   const OperationOptions& options = {});
// synchronize() of an alltoall_async().
HVD_EXPORT AlltoallResult synchronize_alltoall(const TensorHandle& handle);
// Sparse COO tensors of one shape, each with its own elements, added up (and divided by size()):
// coalesced, and as large as all of them together. Average and sum only; a difference in shape or
// dtype is an Error(mismatch) on every rank.
HVD_EXPORT at::Tensor sparse_allreduce(const at::Tensor& tensor, ReduceOp op = ReduceOp::average,
                                       const OperationOptions& options = {});

// -- Everything down to metric_average --
// The ranks of `process_set` call it together, and `root` is
// a rank of the job among them.

// Rank `root`'s tensors to everybody, in place and all at once: a module's parameters and buffers,
// variables by name (named_parameters()), or a list of them, which is known by its places. Names,
// shapes and dtypes are the same on all ranks, in any order; other names, or a tensor that one rank
// cannot send, are Error(mismatch) on every rank before anything is sent. Each broadcast is called
// "broadcast_parameters.NAME", so that an error names the tensor. After another error the others
// have been sent all the same.
HVD_EXPORT void broadcast_parameters(torch::nn::Module& module, int root = 0,
                                     const ProcessSet& process_set = {});
HVD_EXPORT void broadcast_parameters(const torch::OrderedDict<std::string, at::Tensor>& variables,
                                     int root = 0, const ProcessSet& process_set = {});
HVD_EXPORT void broadcast_parameters(const std::vector<at::Tensor>& variables, int root = 0,
                                     const ProcessSet& process_set = {});
// Rank `root`'s state (momentum, step counts, history of LBFGS) and options (learning rates) to
// everybody. The optimizers are of one class and have the same parameters in the same order. What
// LibTorch throws on a rank is an error of every rank: unavailable where the root's cannot be
// saved, mismatch where another rank cannot take it over.
HVD_EXPORT void broadcast_optimizer_state(torch::optim::Optimizer& optimizer, int root = 0,
                                          const ProcessSet& process_set = {});

// The averaged gradients of `outputs`, without an optimizer: torch::autograd::grad, then one
// grouped_allreduce. An input that has no part in the outputs counts with zeros.
HVD_EXPORT std::vector<at::Tensor> distributed_grad(const std::vector<at::Tensor>& outputs,
                                                    const std::vector<at::Tensor>& inputs,
                                                    ReduceOp op = ReduceOp::average,
                                                    Compression compression = Compression::none,
                                                    const OperationOptions& options = {});

// The mean of a number over all ranks (a loss, an accuracy).
HVD_EXPORT double metric_average(double value, const ProcessSet& process_set = {});
// The same of several at once, by name. Every rank has the same names.
HVD_EXPORT std::map<std::string, double> metric_average(const std::map<std::string, double>& values,
                                                        const ProcessSet& process_set = {});

struct DistributedOptimizerOptions {
  // adasum: not gradients are combined but what the optimizer's own step on this rank's gradients
  // has done to each parameter, as in Horovod; compression is of that, and .grad stays this rank's.
  // Groups and gradient_predivide_factor are Error(invalid_argument) then.
  ReduceOp op = ReduceOp::average;
  // Gradients travel in flat buckets of about this size, smaller where backward begins and where it
  // ends; one is reduced as soon as backward has produced all its gradients, while backward goes on
  // with the next. Which gradients share one follows the order in which the first backward has
  // produced them.
  std::size_t bucket_bytes = std::size_t{4} << 20;
  Compression compression = Compression::none;
  // So many backward() add their gradients up before they are reduced. step() before that reduces
  // what there is.
  int backward_passes_per_step = 1;
  // Divides by backward_passes_per_step, so that the gradient is that of the mean loss.
  bool average_aggregated_gradients = false;
  // An average divides by size(): so are the gradients of `local` divided, to be of the same scale.
  bool scale_local_gradients = true;
  // Splits the division of an average: by this before the sum, by size() over this after it. With
  // op average only; a power of 2 between 1 and size() keeps sums in fp16 from overflowing without
  // a loss of bits.
  double gradient_predivide_factor = 1;
  // Parameters whose gradients are reduced as one, whatever their size; those in none of the groups
  // go by bucket_bytes. Or so many groups of about as many parameters each, in their order.
  std::vector<std::vector<at::Tensor>> groups{};
  int num_groups = 0;
  // Parameters whose gradients are sparse (torch::nn::Embedding and EmbeddingBag with
  // sparse(true)): the rows that a step has touched travel, and .grad is a coalesced sparse tensor
  // of whole rows. Average and sum only; without compression. step() reduces them, backward does
  // not yet. The optimizer itself must take sparse gradients (SGD, Adagrad), or the program makes
  // .grad dense between synchronize() and step().
  std::vector<at::Tensor> sparse{};
  // Parameters that every rank trains on its own (Horovod's local layers): their gradients stay
  // this rank's. Not with op adasum, nor in groups or sparse.
  std::vector<at::Tensor> local{};
  // The names of the parameters in errors, stall reports and the timeline:
  // module->named_parameters(), the same on all ranks. It has all that the optimizer trains, or
  // nothing: then they are "parameter 0" and so on, in the optimizer's order.
  torch::OrderedDict<std::string, at::Tensor> named_parameters{};
  // The ranks that train together; the optimizer is made on those alone, in the same order as any
  // other of theirs.
  ProcessSet process_set{};
};

// Makes any torch::optim optimizer whose step() needs no closure (all but LBFGS) a distributed one:
// step() averages the gradients over all ranks and then takes the optimizer's own step. The
// optimizer must outlive this object, and its parameters must be the same on all ranks, in the same
// order; else, or where the options make no sense on one rank, every rank throws.
//
//   torch::optim::SGD sgd(model->parameters(), 0.01 * hvd::size());
//   hvd::DistributedOptimizer optimizer(sgd);
//   ... optimizer.zero_grad(); loss.backward(); optimizer.step();
//
// From construction on every parameter's .grad is a tensor over this object's bucket memory, with
// the parameter's sizes and strides. A .grad that the program replaces or resets is noticed, copied
// and bound again by step(); once its reduction has begun (backward has run), call synchronize()
// before replacing it, or step() throws Error(invalid_argument). Destroying the object gives the
// parameters gradients of their own again. backward_passes_per_step backward() per step(): one more
// before step() throws Error(invalid_argument). After the first step() the gradients may lie in
// other buckets: a tensor that .grad gave before that is no longer the gradient. With op adasum,
// and for the parameters of `sparse`, .grad stays autograd's own, and backward() is not counted.
// Not thread-safe.
class HVD_EXPORT DistributedOptimizer {
 public:
  explicit DistributedOptimizer(torch::optim::Optimizer& optimizer,
                                const DistributedOptimizerOptions& options = {});
  ~DistributedOptimizer();
  DistributedOptimizer(const DistributedOptimizer&) = delete;
  DistributedOptimizer& operator=(const DistributedOptimizer&) = delete;

  // Sets all gradients to zero, in place; with `set_to_none` they are undefined until backward()
  // has produced them, which saves the writing of zeros and the adding to them. One that backward()
  // then leaves out is zero in step() all the same.
  void zero_grad(bool set_to_none = false);
  // Waits until all gradients are reduced, without taking the step (to clip them, say). step() then
  // does not reduce again.
  void synchronize();
  // synchronize(), then the optimizer's step().
  torch::Tensor step();

  torch::optim::Optimizer& optimizer();
  const DistributedOptimizerOptions& options() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace hvd
