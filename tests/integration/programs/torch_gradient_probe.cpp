// Gradients through collectives, on every rank of a real job. The reference is one process that has
// the tensors of all ranks and does the same with LibTorch's own functions; the loss is the sum of
// all ranks'. The first difference ends the rank with its words and exit code 1.
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::gradient_probe {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

// The tensor of rank r, a leaf that requires a gradient.
Tensor leaf(int rank, std::int64_t rows) {
  torch::manual_seed(100 + rank);
  return torch::randn({rows, 3}, torch::kDouble).requires_grad_();
}

// Another loss on each rank, not linear in the result.
Tensor loss_of(int rank, const Tensor& result) { return (result.pow(3) * (rank + 1)).sum(); }

struct Case {
  std::string name;
  std::function<std::int64_t(int rank)> rows;
  // By hvd, of this rank's tensor.
  std::function<Tensor(const Tensor& mine, const hvd::OperationOptions& options)> ours;
  // The results of all ranks, of their tensors.
  std::function<Tensors(const Tensors& all)> reference;
};

Tensors same_everywhere(const Tensor& result) {
  return Tensors(static_cast<std::size_t>(hvd::size()), result);
}

Tensor sum_of(const Tensors& all) { return torch::stack(all).sum(0); }

// Rank r's rows of what was scattered, as many more for the first as there are left.
Tensors scattered(const Tensor& sum) {
  Tensors parts;
  std::int64_t begin = 0;
  for (int rank = 0; rank < hvd::size(); ++rank) {
    const std::int64_t rows =
        sum.size(0) / hvd::size() + (rank < sum.size(0) % hvd::size() ? 1 : 0);
    parts.push_back(sum.narrow(0, begin, rows));
    begin += rows;
  }
  return parts;
}

std::vector<std::int64_t> splits_of(int rank) {
  std::vector<std::int64_t> splits;
  for (int peer = 0; peer < hvd::size(); ++peer) splits.push_back((rank + 2 * peer) % 3);
  return splits;
}

Tensors exchanged(const Tensors& all) {
  Tensors results;
  for (int to = 0; to < hvd::size(); ++to) {
    Tensors parts;
    for (int from = 0; from < hvd::size(); ++from) {
      const std::vector<std::int64_t> splits = splits_of(from);
      const std::int64_t begin =
          std::accumulate(splits.begin(), splits.begin() + to, std::int64_t{0});
      const auto place = static_cast<std::size_t>(from);
      parts.push_back(all[place].narrow(0, begin, splits[static_cast<std::size_t>(to)]));
    }
    results.push_back(torch::cat(parts));
  }
  return results;
}

std::vector<Case> cases() {
  const auto five = [](int) { return std::int64_t{5}; };
  const double ranks = hvd::size();
  const int root = hvd::size() - 1;
  const auto none = hvd::Compression::none;
  return {
      {"allreduce average", five,
       [=](const Tensor& mine, const hvd::OperationOptions& options) {
         return hvd::allreduce(mine, hvd::ReduceOp::average, {}, none, options);
       },
       [=](const Tensors& all) { return same_everywhere(sum_of(all) / ranks); }},
      {"allreduce sum with factors", five,
       [=](const Tensor& mine, const hvd::OperationOptions& options) {
         return hvd::allreduce(mine, hvd::ReduceOp::sum, {0.5, 3}, none, options);
       },
       [=](const Tensors& all) { return same_everywhere(sum_of(all) * 1.5); }},
      {"grouped_allreduce of which one has no part in the loss", five,
       [=](const Tensor& mine, const hvd::OperationOptions& options) {
         const Tensors both = hvd::grouped_allreduce({mine * 2, mine.slice(0, 1)},
                                                     hvd::ReduceOp::sum, {}, none, options);
         return hvd::rank() == 0 ? both[0] : both[1];
       },
       [=](const Tensors& all) {
         Tensors results = same_everywhere(sum_of(all).slice(0, 1));
         results[0] = sum_of(all) * 2;
         return results;
       }},
      {"broadcast", five,
       [=](const Tensor& mine, const hvd::OperationOptions& options) {
         return hvd::broadcast(mine, root, options);
       },
       [=](const Tensors& all) { return same_everywhere(all.back()); }},
      {"allgather of uneven rows", [](int rank) { return std::int64_t{2} * rank; },
       [](const Tensor& mine, const hvd::OperationOptions& options) {
         return hvd::allgather(mine, options);
       },
       [](const Tensors& all) { return same_everywhere(torch::cat(all)); }},
      {"reducescatter average", five,
       [](const Tensor& mine, const hvd::OperationOptions& options) {
         return hvd::reducescatter(mine, hvd::ReduceOp::average, {3, 1}, none, options);
       },
       [=](const Tensors& all) { return scattered(sum_of(all) * 3 / ranks); }},
      {"grouped_allgather of which one has no part in the loss",
       [](int rank) { return std::int64_t{1} + rank; },
       [](const Tensor& mine, const hvd::OperationOptions& options) {
         const Tensors both = hvd::grouped_allgather({mine * 2, mine.slice(0, 1)}, options);
         return hvd::rank() == 0 ? both[0] : both[1];
       },
       [](const Tensors& all) {
         Tensors later;
         for (const Tensor& one : all) later.push_back(one.slice(0, 1));
         Tensors results = same_everywhere(torch::cat(later));
         results[0] = torch::cat(all) * 2;
         return results;
       }},
      {"grouped_reducescatter", five,
       [=](const Tensor& mine, const hvd::OperationOptions& options) {
         const Tensors both = hvd::grouped_reducescatter(
             {mine, mine.slice(0, 1)}, hvd::ReduceOp::average, {1, 3}, none, options);
         return torch::cat(both);
       },
       [=](const Tensors& all) {
         const Tensors first = scattered(sum_of(all) * 3 / ranks);
         const Tensors second = scattered(sum_of(all).slice(0, 1) * 3 / ranks);
         Tensors results;
         for (std::size_t rank = 0; rank < first.size(); ++rank)
           results.push_back(torch::cat({first[rank], second[rank]}));
         return results;
       }},
      {"alltoall with rows that go nowhere",
       [](int rank) {
         const std::vector<std::int64_t> splits = splits_of(rank);
         return std::accumulate(splits.begin(), splits.end(), std::int64_t{2});
       },
       [](const Tensor& mine, const hvd::OperationOptions& options) {
         return hvd::alltoall(mine, splits_of(hvd::rank()), options).tensor;
       },
       exchanged},
  };
}

void check_gradient(const Case& one, const std::string& name) {
  Tensors all;
  for (int rank = 0; rank < hvd::size(); ++rank) all.push_back(leaf(rank, one.rows(rank)));
  const Tensors results = one.reference(all);
  Tensor loss = torch::zeros({}, torch::kDouble);
  for (int rank = 0; rank < hvd::size(); ++rank)
    loss = loss + loss_of(rank, results[static_cast<std::size_t>(rank)]);
  loss.backward();

  const Tensor mine = leaf(hvd::rank(), one.rows(hvd::rank()));
  const Tensor result = one.ours(mine, {name, {}, {}});
  const auto place = static_cast<std::size_t>(hvd::rank());
  expect(result.allclose(results[place], 1e-12, 1e-12), one.name + ": result");
  expect(result.requires_grad(), one.name + ": no way back");
  loss_of(hvd::rank(), result).backward();
  expect(mine.grad().defined(), one.name + ": no gradient");
  const Tensor wanted = all[place].grad().defined() ? all[place].grad() : torch::zeros_like(mine);
  expect(mine.grad().allclose(wanted, 1e-12, 1e-12), one.name + ": gradient");
}

// A gradient of a gradient goes the same way again.
void check_second_order() {
  const Tensor mine = leaf(hvd::rank(), 2);
  const Tensor result = hvd::allreduce(mine, hvd::ReduceOp::sum);
  const Tensor first = torch::autograd::grad({result.pow(3).sum()}, {mine}, {}, true, true)[0];
  first.sum().backward();
  Tensor sum = torch::zeros({2, 3}, torch::kDouble);
  for (int rank = 0; rank < hvd::size(); ++rank) sum += leaf(rank, 2).detach();
  // The gradient of size() losses alike each: 6 sum, once for each rank that has it.
  expect(mine.grad().allclose(6 * sum * hvd::size() * hvd::size(), 1e-10, 1e-10),
         "gradient of a gradient");
}

void check_limits() {
  const Tensor mine = leaf(hvd::rank(), 2);
  const Tensor largest = hvd::allreduce(mine, hvd::ReduceOp::max);
  const std::string text = error_of([&] { largest.sum().backward(); });
  expect(text == "allreduce: only average and sum have a gradient; detach() the tensor", text);
  const torch::NoGradGuard no_grad;
  expect(!hvd::allreduce(mine).requires_grad(), "without recording");
  expect(!hvd::allgather(mine).requires_grad(), "without recording, rows");
}

// The members of a set go back among themselves.
void check_process_set() {
  if (hvd::size() < 3) return;
  const hvd::ProcessSet set = hvd::add_process_set({0, 2});
  if (hvd::rank() != 1) {
    const Tensor mine = leaf(hvd::rank(), 2);
    const hvd::OperationOptions options{"set", set, {}};
    const Tensor gathered = hvd::allgather(mine, options);
    (gathered.sum() * (hvd::rank() + 1)).backward();
    expect(mine.grad().equal(torch::full_like(mine, 4)), "allgather of a process set");
    const Tensor root = leaf(hvd::rank(), 2);
    (hvd::broadcast(root, 2, options).sum() * (hvd::rank() + 1)).backward();
    expect(root.grad().equal(torch::full_like(root, hvd::rank() == 2 ? 4 : 0)),
           "broadcast of a process set");
  }
  hvd::barrier();
}

// New tensors and those in place, with and without handles.
void check_values() {
  const Tensor mine = torch::full({2, 2}, static_cast<float>(hvd::rank()));
  const auto last = static_cast<float>(hvd::size() - 1);
  expect(hvd::broadcast(mine, hvd::size() - 1).equal(torch::full({2, 2}, last)), "broadcast");
  expect(hvd::synchronize(hvd::broadcast_async(mine, hvd::size() - 1))
             .equal(torch::full({2, 2}, last)),
         "broadcast_async");
  expect(mine.equal(torch::full({2, 2}, static_cast<float>(hvd::rank()))), "broadcast: input");
  const float sum = last * static_cast<float>(hvd::size()) / 2;
  Tensors both = {mine.clone(), mine.to(torch::kInt)};
  hvd::grouped_allreduce_(both, hvd::ReduceOp::sum);
  expect(both[0].equal(torch::full({2, 2}, sum)), "grouped_allreduce_");
  expect(both[1].equal(torch::full({2, 2}, static_cast<int>(sum), torch::kInt)),
         "grouped_allreduce_ of integers");
  const Tensors results =
      hvd::synchronize_all(hvd::grouped_allreduce_async_(both, hvd::ReduceOp::average));
  expect(results[0].is_same(both[0]) && both[0].equal(torch::full({2, 2}, sum)),
         "grouped_allreduce_async_");
}

}  // namespace

int run(const Arguments& /*arguments*/) {
  return run_checks([&] {
    // Unnamed, named, and once more by the order that is remembered.
    for (const char* const prefix : {"", "a", "a"})
      for (const Case& one : cases()) check_gradient(one, *prefix == '\0' ? "" : prefix + one.name);
    check_second_order();
    check_limits();
    check_process_set();
    check_values();
  });
}

}  // namespace hvdrun::test::gradient_probe
