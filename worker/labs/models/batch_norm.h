// The batch normalisation of all lab models: each rank by its own part of a step's batch, as
// torch::nn::BatchNorm2d has it, or (--sync-batch-norm) by the whole.
#pragma once

#include <cstdint>

#include <hvd/sync_batch_norm.h>
#include <torch/torch.h>

namespace hvdrun {

// Parameters, buffers and options of torch::nn::BatchNorm2d.
class BatchNorm2dImpl final : public hvd::SyncBatchNormImpl {
 public:
  explicit BatchNorm2dImpl(std::int64_t channels) : SyncBatchNormImpl(channels) {}

  // Every rank then calls forward() and backward() of the same layers.
  void over_all_ranks() { over_all_ranks_ = true; }

  torch::Tensor forward(const torch::Tensor& input) {
    if (over_all_ranks_) return SyncBatchNormImpl::forward(input);
    if (is_training()) num_batches_tracked += 1;
    return torch::batch_norm(input, weight, bias, running_mean, running_var, is_training(),
                             *options.momentum(), options.eps(),
                             at::globalContext().userEnabledCuDNN());
  }

 private:
  bool over_all_ranks_ = false;
};
TORCH_MODULE(BatchNorm2d);

}  // namespace hvdrun
