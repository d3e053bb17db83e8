// Calls that differ between ranks, or make no sense on one of them: an error of every rank, in
// time, that harms no later operation. The first difference ends the rank with its words and exit
// code 1.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::mismatch_probe {
namespace {

using torch::Tensor;

bool is_last() { return hvd::rank() == hvd::size() - 1; }
std::string last_rank() { return "rank " + std::to_string(hvd::size() - 1); }

// Operations of different kinds and one name: nobody waits for what the others never call.
void check_kinds() {
  const bool last = is_last();
  const std::string rank = last_rank();
  const Tensor tensor = torch::ones({4, 2});
  const hvd::OperationOptions x{"x", {}, {}};
  const auto differ = [&](const std::string& one, const std::string& other, const auto& call,
                          const auto& others) {
    const std::string text = error_of([&] {
      if (last)
        others();
      else
        call();
    });
    const std::string what = "'x': rank 0 called " + one + ", but " + rank + " called " + other;
    expect(text == what, text + ", not " + what);
  };
  const std::string reduced = "allreduce(float32, 8 elements, sum, shape [4, 2])";
  const auto reduce = [&] {
    hvd::allreduce(tensor, hvd::ReduceOp::sum, {}, hvd::Compression::none, x);
  };
  const auto reduce_group = [&](const std::vector<Tensor>& group) {
    hvd::grouped_allreduce(group, hvd::ReduceOp::sum, {}, hvd::Compression::none, x);
  };
  const Tensor of_doubles = tensor.to(torch::kDouble);
  differ(reduced, "allgather(Float [4, 2])", reduce, [&] { hvd::allgather(tensor, x); });
  differ(reduced, "allgather(Float [4, 2])", reduce,
         [&] { hvd::synchronize(hvd::allgather_async(tensor, x)); });
  differ(
      "broadcast(float32, 8 elements, root 0, shape [4, 2])", "alltoall(Float [4, 2])",
      [&] { hvd::broadcast(tensor, 0, x); },
      [&] {
        hvd::alltoall(tensor, std::vector<std::int64_t>(static_cast<std::size_t>(hvd::size())), x);
      });
  differ(reduced, "sparse_allreduce(Float [4, 2], sum)", reduce,
         [&] { hvd::sparse_allreduce(tensor.to_sparse(), hvd::ReduceOp::sum, x); });
  differ(
      "allreduce(float32, 16 elements, sum, shape [4, 2] [4, 2], 2 tensors)", reduced,
      [&] {
        reduce_group({tensor, tensor});
      },
      reduce);
  differ(
      reduced, "allreduce(float64, 8 elements, sum, shape [4, 2])",
      [&] {
        reduce_group({tensor, of_doubles});
      },
      [&] {
        reduce_group({of_doubles, tensor});
      });
  differ(
      "allgather(Float [4, 2])", "grouped_allgather(Float [4, 2] and 1 more)",
      [&] { hvd::allgather(tensor, x); },
      [&] {
        hvd::grouped_allgather({tensor, tensor}, x);
      });
  const auto scatter = [&](hvd::ReduceOp op, const hvd::ScaleFactors& scale) {
    hvd::synchronize(hvd::reducescatter_async(tensor, op, scale, hvd::Compression::none, x));
  };
  const std::string scattered = "reducescatter(Float [4, 2], sum)";
  const auto scatter_sum = [&] { hvd::reducescatter(tensor, hvd::ReduceOp::sum, {}, {}, x); };
  differ(scattered, "allgather(Float [4, 2])", scatter_sum, [&] { hvd::allgather(tensor, x); });
  differ(scattered, "reducescatter(Float [4, 2], average)", scatter_sum,
         [&] { scatter(hvd::ReduceOp::average, {}); });
  differ(scattered, "reducescatter(Float [4, 2], sum, prescale 0.5)", scatter_sum, [&] {
    scatter(hvd::ReduceOp::sum, {0.5, 1});
  });
  differ(scattered, "reducescatter(Float [4, 2], sum, fp16)", scatter_sum,
         [&] { hvd::reducescatter(tensor, hvd::ReduceOp::sum, {}, hvd::Compression::fp16, x); });
}

// A difference is told on every rank, in the same words, and harms no later operation.
void check_mismatches() {
  const bool last = is_last();
  const std::string rank = last_rank();
  const auto ends = [&](const std::string& text, const std::string& what) {
    expect(text == what, text + ", not " + what);
  };
  const Tensor tensor = last ? torch::ones({4, 3}) : torch::ones({4, 2});
  const std::string sides = ": rank 0 has Float [4, 2], but " + rank + " has Float [4, 3]";
  ends(error_of([&] { hvd::allgather(tensor); }), "allgather" + sides);
  ends(error_of([&] { hvd::reducescatter(tensor); }), "reducescatter" + sides);
  const Tensor typed = torch::ones({2, 2}, last ? torch::kLong : torch::kFloat);
  ends(error_of([&] { hvd::allgather(typed); }),
       "allgather: rank 0 has Float [2, 2], but " + rank + " has Long [2, 2]");
  std::vector<std::int64_t> splits(static_cast<std::size_t>(hvd::size()), 1);
  const Tensor sent = torch::ones({hvd::size(), last ? 3 : 2});
  ends(error_of([&] { hvd::alltoall(sent, splits); }),
       "alltoall: rank 0 has Float [*, 2], but " + rank + " has Float [*, 3]");
  hvd::SyncBatchNorm layer(last ? 4 : 3);
  ends(error_of([&] {
         layer->forward(torch::ones({2, last ? 4 : 3}));
       }),
       "SyncBatchNorm of " + std::to_string(last ? 4 : 3) +
           " features: rank 0 called allgather(float32, 7 elements in all, shape [7]), but " +
           rank + " called allgather(float32, 9 elements in all, shape [9])");
  // Each tensor's shape in a group counts, not its elements alone; the job goes on.
  const std::vector<Tensor> group = {torch::ones({5}),
                                     last ? torch::ones({3, 2}) : torch::ones({2, 3})};
  const std::string grouped = error_of([&] { hvd::grouped_allreduce(group); });
  expect(grouped.find("[5] [2, 3]") != std::string::npos &&
             grouped.find("[5] [3, 2]") != std::string::npos,
         grouped);
  hvd::grouped_allreduce({torch::ones({5}), torch::ones({2, 3})});
  const Tensor sparse = torch::eye(last ? 3 : 2).to_sparse();
  ends(error_of([&] { hvd::sparse_allreduce(sparse); }),
       "sparse_allreduce: rank 0 has Float [2, 2], 2 sparse dimensions, but " + rank +
           " has Float [3, 3], 2 sparse dimensions");
  const auto op = last ? hvd::ReduceOp::sum : hvd::ReduceOp::average;
  ends(error_of([&] { hvd::sparse_allreduce(torch::eye(2).to_sparse(), op); }),
       "rank 0 called sparse_allreduce(Float [2, 2], average), but " + rank +
           " called sparse_allreduce(Float [2, 2], sum)");
}

// The last rank's call makes no sense: it is told so, and the others are told that it did.
void wrong(const char* what, const std::function<void()>& body, const std::string& own,
           const std::string& others) {
  const std::string text = error_of(body);
  const std::string expected = is_last() ? own : others;
  expect(text == expected, std::string(what) + ": " + text + ", not " + expected);
}

void check_wrong_rows() {
  const Tensor tensor = is_last() ? torch::tensor(1.0F) : torch::ones({4, 2});
  const hvd::OperationOptions x{"x", {}, {}};
  const std::string no_rows = ": a tensor without dimensions; reshape it to {1}";
  const auto sides = [&](const std::string& words) {
    return " 'x': rank 0 has " + words + ", but " + last_rank() +
           " has (a tensor without dimensions; reshape it to {1})";
  };
  const std::string some = sides("Float [4, 2]");
  wrong(
      "allgather", [&] { hvd::allgather(tensor, x); }, "allgather" + no_rows, "allgather" + some);
  wrong(
      "allgather_async", [&] { hvd::synchronize(hvd::allgather_async(tensor, x)); },
      "allgather" + no_rows, "allgather" + some);
  wrong(
      "grouped_allgather",
      [&] {
        hvd::grouped_allgather({torch::ones({1}), tensor}, x);
      },
      "grouped_allgather" + no_rows, "grouped_allgather" + some);
  wrong(
      "reducescatter", [&] { hvd::reducescatter(tensor, hvd::ReduceOp::sum, {}, {}, x); },
      "reducescatter" + no_rows, "reducescatter" + some);
  const std::vector<std::int64_t> splits(static_cast<std::size_t>(hvd::size()), 1);
  wrong(
      "alltoall", [&] { hvd::alltoall(tensor, splits, x); }, "alltoall" + no_rows,
      "alltoall" + sides("Float [*, 2]"));
  std::vector<std::int64_t> too_many = splits;
  too_many[0] = is_last() ? 1000 : 1;
  const Tensor rows = torch::ones({8, 2});
  const std::string own = ": the splits add up to more than the 8 rows of the tensor";
  const std::string others = " 'x': rank 0 has Float [*, 2], but " + last_rank() +
                             " has (the splits add up to more than the 8 rows of the tensor)";
  wrong(
      "splits", [&] { hvd::alltoall(rows, too_many, x); }, "alltoall" + own, "alltoall" + others);
  wrong(
      "splits of alltoall_async", [&] { hvd::synchronize(hvd::alltoall_async(rows, too_many, x)); },
      "alltoall" + own, "alltoall" + others);
}

void check_wrong_optimizers() {
  torch::nn::Linear model(2, 2);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
  const auto make = [&](const auto& change) {
    return [&sgd, change] {
      hvd::DistributedOptimizerOptions options;
      if (is_last()) change(options);
      hvd::DistributedOptimizer optimizer(sgd, options);
    };
  };
  const std::string others = "DistributedOptimizer: " + last_rank() + " cannot make its own: ";
  const std::string passes = "backward_passes_per_step is 0; at least 1";
  wrong("passes", make([](auto& options) { options.backward_passes_per_step = 0; }),
        "DistributedOptimizer: " + passes, others + passes);
  const std::string stray = "sparse has a tensor that the optimizer does not train";
  wrong("sparse", make([](auto& options) { options.sparse = {torch::ones({2})}; }),
        "DistributedOptimizer: " + stray, others + stray);
  hvd::DistributedOptimizer(sgd, {});
}

void check_wrong_sets() {
  const auto add = [](const std::vector<int>& ranks) {
    return [ranks] { hvd::add_process_set(ranks); };
  };
  const int size = hvd::size();
  const std::string twice = "rank 0 is there twice";
  wrong("add_process_set", add(is_last() ? std::vector<int>{0, 0} : std::vector<int>{0}),
        "add_process_set: " + twice,
        "add_process_set: " + last_rank() + "'s call makes no sense: " + twice);
  const hvd::ProcessSet set = hvd::add_process_set({0});
  wrong(
      "remove_process_set", [&] { hvd::remove_process_set(is_last() ? hvd::ProcessSet{} : set); },
      "remove_process_set: the global process set cannot be removed",
      "remove_process_set: " + last_rank() +
          "'s call makes no sense: the global process set cannot be removed");
  hvd::remove_process_set(set);
  // On all ranks alike each is told for itself.
  const std::string outside = error_of([&] { hvd::add_process_set({size}); });
  expect(outside.find(" is not a rank of 0 to ") != std::string::npos, outside);
  const std::string other = error_of([&] {
    if (is_last())
      hvd::allreduce(torch::ones({1}));
    else
      hvd::add_process_set({0});
  });
  expect(other.find("rank 0 called add_process_set") != std::string::npos, other);
}

void check_parameters() {
  torch::OrderedDict<std::string, Tensor> variables;
  variables.insert("a", torch::ones({2}));
  variables.insert(is_last() ? "c" : "b", torch::ones({2}));
  const std::string text = error_of([&] { hvd::broadcast_parameters(variables); });
  expect(text == "broadcast_parameters: rank 0 has 'b', but " + last_rank() + " has 'c'", text);
  // In any order.
  torch::OrderedDict<std::string, Tensor> ordered;
  for (const char* const name : {is_last() ? "b" : "a", is_last() ? "a" : "b"})
    ordered.insert(name, torch::full({2}, hvd::rank()));
  hvd::broadcast_parameters(ordered);
  expect(ordered["a"].equal(torch::zeros({2})), "parameters in another order");
  expect(hvd::metric_average(std::map<std::string, double>()).empty(), "no metrics");
  std::map<std::string, double> metrics;
  if (!is_last()) metrics["loss"] = 1;
  const std::string metric = error_of([&] { hvd::metric_average(metrics); });
  expect(metric == "metric_average: rank 0 has loss, but " + last_rank() + " has (no metrics)",
         metric);
}

void check_beside_joined() {
  torch::nn::Linear model(2, 2);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1));
  if (!is_last()) {
    const std::string text = error_of([&] { hvd::DistributedOptimizer(sgd, {}); });
    expect(text == "DistributedOptimizer: " + last_rank() +
                       " has joined (hvd::join); it takes all ranks",
           text);
    hvd::broadcast_parameters(*model);
  }
  hvd::join();
}

}  // namespace

int run(const Arguments&) {
  return run_checks([&] {
    if (hvd::size() == 1) return;
    const auto goes_on = [] {
      const Tensor all = hvd::allgather(torch::full({1 + hvd::rank()}, hvd::rank()));
      expect(all.size(0) == hvd::size() * (hvd::size() + 1) / 2 && all[0].item<int>() == 0,
             "an operation after the errors");
    };
    for (const auto check :
         {check_mismatches, check_kinds, check_wrong_rows, check_wrong_optimizers, check_wrong_sets,
          check_parameters, check_beside_joined}) {
      check();
      goes_on();
    }
  });
}

}  // namespace hvdrun::test::mismatch_probe
