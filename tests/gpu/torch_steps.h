// Steps of training whose results are known: what torch_check runs besides its operations.
// All throw std::runtime_error with what is wrong.
#pragma once

#include <torch/torch.h>

namespace hvdrun::test {

// Against torch::nn::BatchNorm2d over the batches of all ranks: outputs, gradients, statistics.
void check_sync_batch_norm(const at::Device& device);
// An embedding whose gradients travel as the rows that a step has touched.
void check_sparse_gradients(const at::Device& device);
// Steps that are alike count once, steps across each other in full.
void check_adasum_optimizer(const at::Device& device);

}  // namespace hvdrun::test
