// Names, process sets, adasum, clipped and scaled gradients, and batches of uneven number, on every
// rank of a real job; each rank compares with what it can compute by itself. The first difference
// ends the rank with its words and exit code 1.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::options_probe {
namespace {

using torch::Tensor;

// Each rank begins with another tensor and waits for them in the opposite order.
void check_names() {
  constexpr int kTensors = 8;
  for (int round = 0; round < 5; ++round) {
    std::vector<hvd::TensorHandle> handles;
    std::vector<int> order;
    for (int i = 0; i < kTensors; ++i) order.push_back((i * 3 + hvd::rank() * 5) % kTensors);
    for (const int i : order)
      handles.push_back(hvd::allreduce_async(torch::full({4, i + 1}, hvd::rank() + i),
                                             hvd::ReduceOp::sum, {}, hvd::Compression::none,
                                             {"t" + std::to_string(i), {}, {}}));
    const int ranks = hvd::size();
    for (std::size_t at = order.size(); at-- > 0;) {
      const int i = order[at];
      const Tensor expected = torch::full({4, i + 1}, ranks * i + ranks * (ranks - 1) / 2);
      expect(hvd::synchronize(handles[at]).equal(expected), "t" + std::to_string(i));
    }
  }
  Tensor mine = torch::full({5}, hvd::rank());
  const hvd::TensorHandle broadcast = hvd::broadcast_async_(mine, hvd::size() - 1, {"b", {}, {}});
  expect(hvd::wait(broadcast, std::chrono::seconds(20)), "broadcast_async_ has not ended");
  expect(hvd::poll(broadcast), "poll after wait");
  hvd::synchronize(broadcast);
  expect(mine.equal(torch::full({5}, hvd::size() - 1)), "broadcast_async_");
}

// As many elements, but of another shape; then the job goes on.
void check_shapes() {
  if (hvd::size() == 1) return;
  const bool last = hvd::rank() == hvd::size() - 1;
  const Tensor tensor = last ? torch::ones({3, 2}) : torch::ones({2, 3});
  const std::string text = error_of([&] {
    hvd::allreduce(tensor, hvd::ReduceOp::sum, {}, hvd::Compression::none, {"w", {}, {}});
  });
  expect(text.find("'w'") != std::string::npos && text.find("[2, 3]") != std::string::npos &&
             text.find("[3, 2]") != std::string::npos,
         text);
  expect(hvd::allreduce(torch::ones({2}), hvd::ReduceOp::sum).equal(torch::full({2}, hvd::size())),
         "after a mismatch");
}

torch::nn::Sequential make_stack() {
  torch::manual_seed(7);
  torch::nn::Sequential model(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
  model->to(torch::kDouble);
  return model;
}

constexpr std::int64_t kRows = 4;  // of each rank and step

struct Rows {
  Tensor input;
  Tensor target;
};

// The rows that `rank` trains on in this step.
Rows rows_of(int rank, int step) {
  torch::manual_seed(1000 * rank + step);
  const auto options = torch::TensorOptions(torch::kDouble);
  return {torch::randn({kRows, 6}, options), torch::randn({kRows, 3}, options)};
}

Tensor loss_of(torch::nn::Sequential& model, const Rows& rows) {
  return torch::mse_loss(model->forward(rows.input), rows.target);
}

std::vector<Tensor> gradients_of(torch::nn::Sequential& model, int rank, int step) {
  return torch::autograd::grad({loss_of(model, rows_of(rank, step))}, model->parameters());
}

void compare(torch::nn::Sequential& got, torch::nn::Sequential& expected, const std::string& what) {
  double most = 0;
  for (std::size_t i = 0; i < got->parameters().size(); ++i) {
    const Tensor difference = (got->parameters()[i] - expected->parameters()[i]).abs().max();
    most = std::max(most, difference.item<double>());
  }
  if (hvd::rank() == 0) std::printf("%s: parameters differ by %.2g at most\n", what.c_str(), most);
  expect(most < 1e-12, what + ": " + std::to_string(most));
}

// The gradient of all `ranks` together, each counted with 1 / `of`, into .grad.
void set_gradients(torch::nn::Sequential& model, const std::vector<int>& ranks, int of, int step) {
  std::vector<Tensor> sums;
  for (const Tensor& parameter : model->parameters())
    sums.push_back(torch::zeros_like(parameter.detach()));
  for (const int rank : ranks) {
    const std::vector<Tensor> gradients = gradients_of(model, rank, step);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += gradients[i] / of;
  }
  for (std::size_t i = 0; i < sums.size(); ++i) model->parameters()[i].mutable_grad() = sums[i];
}

// Two halves of the job train apart from each other.
void check_process_sets() {
  std::vector<int> even;
  std::vector<int> odd;
  for (int rank = 0; rank < hvd::size(); ++rank) (rank % 2 == 0 ? even : odd).push_back(rank);
  if (odd.empty()) return;
  const hvd::ProcessSet even_set = hvd::add_process_set(even, "even");
  const hvd::ProcessSet odd_set = hvd::add_process_set(odd, "odd");
  const bool is_even = hvd::rank() % 2 == 0;
  const std::vector<int>& mine = is_even ? even : odd;
  torch::nn::Sequential model = make_stack();
  torch::nn::Sequential alone = make_stack();
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  torch::optim::SGD single(alone->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  hvd::DistributedOptimizerOptions options;
  options.process_set = is_even ? even_set : odd_set;
  options.num_groups = 2;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    loss_of(model, rows_of(hvd::rank(), step)).backward();
    optimizer.step();
    set_gradients(alone, mine, static_cast<int>(mine.size()), step);
    single.step();
  }
  compare(model, alone, "two process sets");
  // Rows of another number on each rank of the set.
  std::vector<Tensor> rows;
  rows.reserve(mine.size());
  for (const int rank : mine) rows.push_back(torch::full({rank + 1, 2}, rank));
  const Tensor own = torch::full({hvd::rank() + 1, 2}, hvd::rank());
  expect(hvd::allgather(own, {"rows", options.process_set, {}}).equal(torch::cat(rows)),
         "allgather of a process set");
  hvd::remove_process_set(even_set);
  hvd::remove_process_set(odd_set);
}

// Clipped after the reduction, before the step, with a scaled loss.
void check_clipping() {
  torch::nn::Sequential model = make_stack();
  torch::nn::Sequential alone = make_stack();
  torch::optim::SGD sgd(model->parameters(), 0.5);
  torch::optim::SGD single(alone->parameters(), 0.5);
  hvd::DistributedOptimizer optimizer(sgd);
  hvd::LossScaler scaler;
  std::vector<int> all;
  for (int rank = 0; rank < hvd::size(); ++rank) all.push_back(rank);
  for (int step = 0; step < 6; ++step) {
    optimizer.zero_grad();
    scaler.scale(loss_of(model, rows_of(hvd::rank(), step))).backward();
    expect(scaler.unscale(optimizer), "overflow");
    torch::nn::utils::clip_grad_norm_(model->parameters(), 0.3);
    expect(scaler.step(optimizer), "left out");
    set_gradients(alone, all, hvd::size(), step);
    const double norm = torch::nn::utils::clip_grad_norm_(alone->parameters(), 0.3);
    expect(norm > 0.3, "nothing to clip");
    single.step();
  }
  compare(model, alone, "clipped and scaled");
  // An overflow on one rank alone leaves the step out on all.
  optimizer.zero_grad();
  const double factor = hvd::rank() == 0 ? 1e308 : 1;
  scaler.scale(loss_of(model, rows_of(hvd::rank(), 0)) * factor).backward();
  expect(!scaler.step(optimizer), "a step with an overflow");
  expect(scaler.value() == 32768, "the scale after an overflow");
  compare(model, alone, "after an overflow");
}

// Two ranks: the formula of the adaptive sum of what each rank's own step has changed.
void check_adasum() {
  torch::nn::Sequential model = make_stack();
  torch::nn::Sequential alone = make_stack();
  torch::optim::SGD sgd(model->parameters(), 0.5);
  hvd::DistributedOptimizerOptions options;
  options.op = hvd::ReduceOp::adasum;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    loss_of(model, rows_of(hvd::rank(), step)).backward();
    optimizer.step();
    if (hvd::size() > 2) continue;
    const auto changes = [&](int rank) {
      std::vector<Tensor> all = gradients_of(alone, rank, step);
      for (Tensor& gradient : all) gradient *= -0.5;
      return all;
    };
    const std::vector<Tensor> first = changes(0);
    const std::vector<Tensor> second = changes(hvd::size() - 1);
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Tensor dot = (first[i] * second[i]).sum();
      const Tensor a = first[i] * (1 - dot / (2 * (first[i] * first[i]).sum()));
      const Tensor b = second[i] * (1 - dot / (2 * (second[i] * second[i]).sum()));
      alone->parameters()[i].add_(a + b);
    }
  }
  if (hvd::size() <= 2) compare(model, alone, "adasum");
  for (const Tensor& parameter : model->parameters()) {
    const Tensor all = hvd::allgather(parameter.detach().reshape({1, -1}));
    for (int rank = 1; rank < hvd::size(); ++rank)
      expect(all[rank].equal(all[0]), "adasum: parameters of the ranks differ");
  }
}

// In epoch e rank r has (r + e) mod size() batches, none at all at times.
void check_join() {
  torch::nn::Sequential model = make_stack();
  torch::nn::Sequential alone = make_stack();
  torch::optim::SGD sgd(model->parameters(), 0.1);
  torch::optim::SGD single(alone->parameters(), 0.1);
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 256;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int epoch = 0; epoch < 4; ++epoch) {
    const auto batches = [&](int rank) {
      return (rank + epoch) % hvd::size() + (epoch > 1 ? 1 : 0);
    };
    for (int batch = 0; batch < batches(hvd::rank()); ++batch) {
      optimizer.zero_grad();
      loss_of(model, rows_of(hvd::rank(), 10 * epoch + batch)).backward();
      optimizer.step();
    }
    hvd::broadcast_parameters(*model, hvd::join());
    for (int batch = 0;; ++batch) {
      std::vector<int> working;
      for (int rank = 0; rank < hvd::size(); ++rank)
        if (batch < batches(rank)) working.push_back(rank);
      if (working.empty()) break;
      set_gradients(alone, working, hvd::size(), 10 * epoch + batch);
      single.step();
    }
    compare(model, alone, "uneven batches, epoch " + std::to_string(epoch));
  }
}

// Rank 0 has no more of its own while the others gather rows.
void check_rows_with_joined() {
  const int ranks = hvd::size();
  if (ranks > 1 && hvd::rank() != 0) {
    std::vector<Tensor> rows;
    for (int rank = 1; rank < ranks; ++rank) rows.push_back(torch::full({rank + 1, 2}, rank));
    const Tensor own = torch::full({hvd::rank() + 1, 2}, hvd::rank());
    expect(hvd::allgather(own).equal(torch::cat(rows)), "allgather while rank 0 has joined");
    const Tensor part = hvd::reducescatter(torch::ones({ranks, 3}), hvd::ReduceOp::sum);
    expect(part.equal(torch::full({1, 3}, ranks - 1)), "reducescatter while rank 0 has joined");
    const hvd::AlltoallResult got = hvd::alltoall(torch::ones({ranks, 1}));
    expect(got.received_splits.at(0) == 0 && got.tensor.size(0) == ranks - 1,
           "alltoall while rank 0 has joined");
    const auto gathers = hvd::grouped_allgather({own, own * 2});
    expect(gathers.at(0).equal(torch::cat(rows)) && gathers.at(1).equal(torch::cat(rows) * 2),
           "grouped_allgather while rank 0 has joined");
    const auto scatters = hvd::grouped_reducescatter(
        {torch::ones({ranks, 3}), torch::full({ranks, 1}, 2.0)}, hvd::ReduceOp::sum);
    expect(scatters.at(0).equal(torch::full({1, 3}, ranks - 1)) &&
               scatters.at(1).equal(torch::full({1, 1}, 2.0 * (ranks - 1))),
           "grouped_reducescatter while rank 0 has joined");
    const auto later = hvd::alltoall_async(torch::ones({ranks, 1}));
    const auto later_part = hvd::reducescatter_async(torch::ones({ranks, 3}), hvd::ReduceOp::sum);
    expect(hvd::synchronize(later_part).equal(torch::full({1, 3}, ranks - 1)),
           "reducescatter_async while rank 0 has joined");
    expect(hvd::synchronize(later).size(0) == ranks - 1, "alltoall_async while rank 0 has joined");
    const Tensor variable = torch::ones({3}).set_requires_grad(true);
    const Tensor gradient = hvd::distributed_grad({(variable * variable).sum()}, {variable}).at(0);
    expect(torch::allclose(gradient, torch::full({3}, 2.0 * (ranks - 1) / ranks)),
           "distributed_grad while rank 0 has joined");
    const Tensor sparse = hvd::sparse_allreduce(torch::eye(2).to_sparse(), hvd::ReduceOp::sum);
    expect(sparse.to_dense().equal(torch::eye(2) * (ranks - 1)),
           "sparse_allreduce while rank 0 has joined");
    const auto means = hvd::metric_average({{"loss", 2.0}});
    expect(std::abs(means.at("loss") - 2.0 * (ranks - 1) / ranks) < 1e-12,
           "metric_average while rank 0 has joined");
    const std::string text = error_of([&] {
      hvd::allgather(torch::ones({1, hvd::rank() == ranks - 1 ? 3 : 2}));
    });
    const std::string expected = "allgather: rank 1 has Float [1, 2], but rank " +
                                 std::to_string(ranks - 1) + " has Float [1, 3]";
    if (ranks > 2) expect(text == expected, text);
  }
  hvd::join();
}

// Embeddings whose gradients travel as rows: what one process with dense ones computes.
void check_sparse_gradients() {
  const auto loss_of = [](torch::nn::Embedding& words, torch::nn::Linear& layer, int rank,
                          int step) {
    const Tensor row =
        torch::tensor({std::int64_t{rank % 6}, std::int64_t{(rank + step) % 6}, std::int64_t{5}});
    return layer(words(row)).pow(2).sum() * (rank + 1);
  };
  const auto make = [](bool sparse) {
    torch::manual_seed(3);
    return torch::nn::Embedding(torch::nn::EmbeddingOptions(6, 4).sparse(sparse));
  };
  torch::nn::Embedding words = make(true);
  torch::nn::Linear layer(4, 2);
  torch::nn::Embedding single_words = make(false);
  torch::nn::Linear single_layer(4, 2);
  torch::optim::SGD sgd({words->weight, layer->weight, layer->bias}, 0.01);
  torch::optim::SGD single({single_words->weight, single_layer->weight, single_layer->bias}, 0.01);
  hvd::DistributedOptimizerOptions options;
  options.sparse = {words->weight};
  options.backward_passes_per_step = 2;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int step = 0; step < 4; ++step) {
    optimizer.zero_grad();
    single.zero_grad();
    for (int pass = 0; pass < 2; ++pass) {
      // In one step only rank 0 has words.
      const bool no_words = step == 2 && hvd::rank() != 0;
      Tensor loss = loss_of(words, layer, hvd::rank(), step + pass);
      if (no_words) loss = layer(torch::ones({1, 4})).sum();
      loss.backward();
      for (int rank = 0; rank < hvd::size(); ++rank) {
        Tensor its = loss_of(single_words, single_layer, rank, step + pass);
        if (step == 2 && rank != 0) its = single_layer(torch::ones({1, 4})).sum();
        (its / hvd::size()).backward();
      }
    }
    optimizer.synchronize();
    expect(words->weight.grad().is_sparse() && words->weight.grad().is_coalesced(),
           "sparse gradient");
    expect(words->weight.grad().to_dense().allclose(single_words->weight.grad(), 1e-4, 1e-5),
           "sparse gradient, step " + std::to_string(step));
    optimizer.step();
    single.step();
  }
  expect(words->weight.allclose(single_words->weight, 1e-4, 1e-5), "sparse: embedding");
  expect(layer->weight.allclose(single_layer->weight, 1e-4, 1e-5),
         "sparse: linear layer beside it");
  // One rank drops its gradients while the others step: the next round is nobody's of before.
  const auto round = [&](int step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < 2; ++pass) loss_of(words, layer, hvd::rank(), step + pass).backward();
  };
  round(5);
  if (hvd::rank() == 0)
    optimizer.zero_grad();
  else
    optimizer.step();
  hvd::broadcast_(words->weight, 0);
  hvd::broadcast_(layer->weight, 0);
  hvd::broadcast_(layer->bias, 0);
  round(6);
  const Tensor own = words->weight.grad().to_dense();
  optimizer.synchronize();
  expect(words->weight.grad().to_dense().allclose(hvd::allreduce(own), 1e-4, 1e-5),
         "sparse gradients after one rank has dropped its own");
  optimizer.step();
  // An error stays until the gradients are dropped.
  if (hvd::size() > 1) {
    round(7);
    const Tensor before = words->weight.detach().clone();
    if (hvd::rank() == 0)
      words->weight.mutable_grad() =
          torch::sparse_coo_tensor(torch::zeros({1, 1}, torch::kLong), torch::ones({1, 4}), {7, 4});
    for (int attempt = 0; attempt < 2; ++attempt)
      expect(!error_of([&] { optimizer.step(); }).empty(), "a sparse mismatch is an error, twice");
    expect(words->weight.equal(before), "no step after it");
    round(8);
    optimizer.step();
    expect(!words->weight.equal(before), "and one afterwards");
  }
  const auto text = error_of([&] {
    hvd::DistributedOptimizerOptions wrong;
    wrong.sparse = {torch::ones({2})};
    hvd::DistributedOptimizer other(sgd, wrong);
  });
  expect(text == "DistributedOptimizer: sparse has a tensor that the optimizer does not train",
         text);
}

}  // namespace

int run(const Arguments& /*arguments*/) {
  return run_checks([&] {
    check_names();
    check_shapes();
    check_process_sets();
    check_clipping();
    check_adasum();
    check_join();
    check_rows_with_joined();
    check_sparse_gradients();
  });
}

}  // namespace hvdrun::test::options_probe
