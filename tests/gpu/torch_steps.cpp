#include "tests/gpu/torch_steps.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/torch.h>

namespace hvdrun::test {
namespace {

using torch::indexing::Slice;

void expect_close(const at::Tensor& got, const at::Tensor& wanted, const char* what) {
  if (got.device().type() != wanted.device().type() || !torch::allclose(got, wanted, 1e-4, 1e-5))
    throw std::runtime_error(std::string("wrong: ") + what);
}

// This rank's part of what all ranks have.
at::Tensor mine_of(const at::Tensor& all) {
  const std::int64_t rows = all.size(0) / hvd::size();
  return all.index({Slice(hvd::rank() * rows, (hvd::rank() + 1) * rows)}).clone();
}

}  // namespace

void check_sync_batch_norm(const at::Device& device) {
  torch::manual_seed(3);  // the same numbers on every rank
  const at::Tensor all = (torch::randn({4 * hvd::size(), 5, 3, 3}) * 3 + 100).to(device);
  const at::Tensor weights = torch::randn_like(all);
  const at::Tensor whole = all.clone().requires_grad_();
  torch::nn::BatchNorm2d reference(5);
  reference->to(device);
  const at::Tensor wanted = reference->forward(whole);
  (wanted * weights).sum().backward();

  const at::Tensor part = mine_of(all).requires_grad_();
  hvd::SyncBatchNorm layer(5);
  layer->to(device);
  const at::Tensor output = layer->forward(part);
  (output * mine_of(weights)).sum().backward();
  expect_close(output, mine_of(wanted.detach()), "SyncBatchNorm");
  expect_close(part.grad(), mine_of(whole.grad()), "SyncBatchNorm: the gradient of its input");
  expect_close(hvd::allreduce(layer->weight.grad(), hvd::ReduceOp::sum), reference->weight.grad(),
               "SyncBatchNorm: the gradient of its weight");
  expect_close(layer->running_mean, reference->running_mean, "SyncBatchNorm: the running mean");
  expect_close(layer->running_var, reference->running_var, "SyncBatchNorm: the running variance");
}

void check_sparse_gradients(const at::Device& device) {
  constexpr std::int64_t kWords = 50;
  constexpr double kRate = 0.5;
  const std::int64_t n = hvd::size();
  torch::manual_seed(4);
  torch::nn::Embedding words(torch::nn::EmbeddingOptions(kWords, 8).sparse(true));
  words->to(device);
  torch::optim::SGD sgd(words->parameters(), kRate);
  hvd::DistributedOptimizerOptions options;
  options.sparse = {words->weight};
  hvd::DistributedOptimizer optimizer(sgd, options);
  at::Tensor wanted = words->weight.detach().clone();
  for (std::int64_t step = 0; step < 2; ++step) {
    // Word 7 on every rank; each counts as often as its rank says.
    const auto touched = [&](std::int64_t rank) {
      return torch::tensor({std::int64_t{7}, 10 + rank + step, 11 + rank + step}, at::kLong)
          .to(device);
    };
    optimizer.zero_grad();
    (words->forward(touched(hvd::rank())).sum() * (hvd::rank() + 1)).backward();
    optimizer.step();
    if (!words->weight.grad().is_sparse())
      throw std::runtime_error("wrong: the embedding's gradient is dense");
    for (std::int64_t rank = 0; rank < n; ++rank) {
      const double change = -kRate * static_cast<double>(rank + 1) / static_cast<double>(n);
      wanted.index_add_(0, touched(rank), torch::full({3, 8}, change).to(device));
    }
  }
  expect_close(words->weight.detach(), wanted, "sparse gradients");
}

void check_adasum_optimizer(const at::Device& device) {
  constexpr double kRate = 0.25;
  constexpr std::int64_t kEach = 6;
  const std::int64_t n = hvd::size();
  const at::Tensor alike = torch::zeros({kEach}).to(device).requires_grad_();
  const at::Tensor across = torch::zeros({kEach * n}).to(device).requires_grad_();
  torch::optim::SGD sgd({alike, across}, kRate);
  hvd::DistributedOptimizerOptions options;
  options.op = hvd::ReduceOp::adasum;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const at::Tensor own = across.index({Slice(kEach * hvd::rank(), kEach * (hvd::rank() + 1))});
    (alike.sum() + own.sum()).backward();
    optimizer.step();
  }
  expect_close(alike.detach(), torch::full_like(alike, -3 * kRate), "Adasum of steps alike");
  expect_close(across.detach(), torch::full_like(across, -3 * kRate),
               "Adasum of steps across each other");
}

}  // namespace hvdrun::test
