// Batch normalization over the batches of all ranks, as torch::nn::BatchNorm would do it on all of
// them in one process. <hvd/torch.h> includes this.
//
//   torch::nn::Sequential model(torch::nn::Conv2d(3, 16, 3), hvd::SyncBatchNorm(16), ...);
#pragma once

#include <hvd/hvd.h>
#include <torch/torch.h>

namespace hvd {

// For input of at least two dimensions, {batch, features, ...}, of a floating-point dtype. Batches
// may have different sizes on each rank, 0 too. In training every rank calls forward() and
// backward() of the same layers in the same order; in evaluation, with running statistics, nothing
// is shared. Parameters, buffers and options are those of torch::nn::BatchNorm2d, so that each
// loads what the other has saved.
//
// The batches of the process set's ranks, where one is given. forward(): an allgather of
// 2 * features + 1 numbers; backward(): one allreduce of 2 * features; on a GPU no host waits.
// Gradients of weight and bias are those of this rank's batch: DistributedOptimizer averages them
// as all others. Throws Error(invalid_argument) for other input, Error(mismatch) when the layers of
// two ranks have different numbers of features. Threads as the collectives in <hvd/hvd.h>.
class HVD_EXPORT SyncBatchNormImpl
    : public torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  explicit SyncBatchNormImpl(std::int64_t features, const ProcessSet& process_set = {})
      : SyncBatchNormImpl(torch::nn::BatchNormOptions(features), process_set) {}
  explicit SyncBatchNormImpl(const torch::nn::BatchNormOptions& layer,
                             const ProcessSet& process_set = {})
      : torch::nn::NormImplBase<0, SyncBatchNormImpl, torch::nn::BatchNormOptions>(layer),
        process_set_(process_set) {}

  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const at::Tensor& input) override;

 private:
  // Into the running statistics.
  void note_batch(const at::Tensor& mean, const at::Tensor& variance, const at::Tensor& count);

  ProcessSet process_set_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace hvd
