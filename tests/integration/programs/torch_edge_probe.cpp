// Things that programs do seldom. Integers in a group that goes back, a shared parameter under loss
// scaling, layers changed in place; no segment left, gradients that are all sparse and dropped.
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::edge_probe {
namespace {

using torch::Tensor;

// Labels beside what they belong to.
void check_integers() {
  const Tensor mine = torch::full({2, 3}, hvd::rank() + 1.0, torch::kDouble).requires_grad_();
  const Tensor labels = torch::full({2}, hvd::rank(), torch::kLong);
  const Tensor flags = torch::full({2}, hvd::rank() == 0, torch::kBool);
  const std::vector<Tensor> all = hvd::grouped_allgather({mine, labels, flags});
  expect(all[1].size(0) == 2 * hvd::size() && !all[1].requires_grad(), "gathered labels");
  expect(all[1][2 * hvd::size() - 1].item<int>() == hvd::size() - 1, "the last label");
  expect(all[2].scalar_type() == torch::kBool && !all[2].requires_grad(), "gathered flags");
  (all[0].sum() * (hvd::rank() + 1)).backward();
  const int sum = hvd::size() * (hvd::size() + 1) / 2;
  expect(mine.grad().equal(torch::full_like(mine, sum)), "gradient beside integers");
}

// alltoall while rank 0 has joined: what comes back stands where it was.
void check_alltoall_with_joined() {
  const int ranks = hvd::size();
  if (ranks < 3) return;
  if (hvd::rank() == 0) {
    hvd::join();
    return;
  }
  const Tensor mine = torch::ones({ranks, 1}, torch::kDouble).requires_grad_();
  const std::vector<std::int64_t> splits(static_cast<std::size_t>(ranks), 1);
  const Tensor got = hvd::alltoall(mine, splits).tensor;
  (got.sum() * (hvd::rank() + 1)).backward();
  for (int rank = 0; rank < ranks; ++rank)
    expect(mine.grad()[rank].item<double>() == (rank == 0 ? 0 : rank + 1),
           "what rank " + std::to_string(rank) + " gives back");
  hvd::join();
}

// An optimizer that was given one parameter twice, as Module::parameters() does for shared layers.
void check_shared_parameter() {
  const Tensor weight = torch::ones({2}).requires_grad_();
  torch::optim::SGD sgd({weight, weight}, 0);
  hvd::DistributedOptimizer optimizer(sgd);
  hvd::LossScaler scaler;
  optimizer.zero_grad();
  scaler.scale((weight * 3).sum()).backward();
  expect(scaler.unscale(optimizer), "finite gradients");
  expect(weight.grad().allclose(torch::full({2}, 3.0)), "unscaled once");
}

void check_norm_in_place() {
  hvd::SyncBatchNorm norm(torch::nn::BatchNormOptions(3).affine(false));
  const Tensor mine = torch::randn({4, 3}).requires_grad_();
  norm->forward(mine).relu_().pow(2).sum().backward();
  expect(mine.grad().defined(), "back through a layer that was changed in place");
}

// Every step must be the same whether the buckets are in segments or not.
void check_without_segments() {
  if (hvd::size() == 1) return;  // has no segments
  std::vector<void*> taken;
  if (hvd::rank() == 0) {
    try {
      while (true) taken.push_back(hvd::alloc(4096));
    } catch (const hvd::Error& error) {
      expect(error.code() == hvd::ErrorCode::unavailable, error.what());
    }
  }
  hvd::barrier();
  torch::manual_seed(7);
  torch::nn::Linear layer(300, 300);
  torch::optim::SGD sgd(layer->parameters(), 0.1);
  hvd::DistributedOptimizer optimizer(sgd);
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    (layer(torch::ones({1, 300})).sum() * (hvd::rank() + 1)).backward();
    optimizer.synchronize();
    expect(layer->bias.grad().allclose(torch::full({300}, (hvd::size() + 1) / 2.0)),
           "a step without segments");
    optimizer.step();
  }
  hvd::barrier();
  for (void* const memory : taken) hvd::free(memory);
}

// In the first step, whose order is still to be agreed on, and with one pass of two.
void check_dropped_sparse() {
  for (const int passes : {1, 2}) {
    torch::nn::Embedding words(torch::nn::EmbeddingOptions(4, 2).sparse(true));
    hvd::broadcast_(words->weight, 0);
    torch::optim::SGD sgd({words->weight}, 0.1);
    hvd::DistributedOptimizerOptions options;
    options.sparse = {words->weight};
    options.backward_passes_per_step = passes;
    hvd::DistributedOptimizer optimizer(sgd, options);
    const auto go_back = [&] { words(torch::zeros({1}, torch::kLong)).sum().backward(); };
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      go_back();
      if (step == 0 && hvd::rank() == hvd::size() - 1) {
        optimizer.zero_grad();
        continue;
      }
      for (int pass = 1; pass < passes; ++pass) go_back();
      optimizer.step();
    }
  }
}

// Dense gradients beside sparse ones, dropped after one pass of two: nobody waits for the other
// half.
void check_dropped_pass() {
  torch::nn::Embedding words(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  torch::nn::Linear layer(2, 1);
  torch::optim::SGD sgd({words->weight, layer->weight, layer->bias}, 0.1);
  hvd::DistributedOptimizerOptions options;
  options.sparse = {words->weight};
  options.backward_passes_per_step = 2;
  hvd::DistributedOptimizer optimizer(sgd, options);
  const auto go_back = [&] { layer(words(torch::zeros({1}, torch::kLong))).sum().backward(); };
  if (hvd::rank() == 0) {
    go_back();
    optimizer.zero_grad();
  }
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    go_back();
    go_back();
    optimizer.step();
  }
}

}  // namespace

int run(const Arguments& /*arguments*/) {
  return run_checks([] {
    check_integers();
    check_alltoall_with_joined();
    check_shared_parameter();
    check_norm_in_place();
    check_without_segments();
    check_dropped_sparse();
    check_dropped_pass();
  });
}

}  // namespace hvdrun::test::edge_probe
