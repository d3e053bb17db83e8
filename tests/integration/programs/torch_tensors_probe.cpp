// Promises of <hvd/torch.h>, asked on every rank of a real job: each rank compares with what it can
// compute by itself. The first difference ends the rank with its words and exit code 1. Takes an
// empty folder.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::tensors_probe {
namespace {

using torch::Tensor;

// The tensor that rank r brings: as many rows as its rank, of numbers that nobody else has.
Tensor rows_of(int rank, std::int64_t rows) {
  return torch::arange(rows * 2, torch::kFloat).view({rows, 2}) + 100 * rank;
}

void check_rows() {
  const int ranks = hvd::size();
  const int rank = hvd::rank();
  std::vector<Tensor> all;
  all.reserve(static_cast<std::size_t>(ranks));
  for (int other = 0; other < ranks; ++other) all.push_back(rows_of(other, other));
  expect(hvd::allgather(rows_of(rank, rank)).equal(torch::cat(all)), "allgather of uneven rows");

  // Rank r sends rank p rows of r + p + 1 rows, the value 10 r + p.
  std::vector<std::int64_t> splits;
  std::vector<Tensor> sent;
  std::vector<Tensor> expected;
  std::vector<std::int64_t> expected_splits;
  for (int peer = 0; peer < ranks; ++peer) {
    splits.push_back(rank + peer + 1);
    sent.push_back(torch::full({splits.back(), 3}, 10 * rank + peer, torch::kInt));
    expected.push_back(torch::full({splits.back(), 3}, 10 * peer + rank, torch::kInt));
  }
  sent.push_back(torch::zeros({2, 3}, torch::kInt));  // goes nowhere
  const hvd::AlltoallResult got = hvd::alltoall(torch::cat(sent), splits);
  expect(got.tensor.equal(torch::cat(expected)), "alltoall with splits");
  expect(got.received_splits == splits, "what each sent");
  expect(hvd::alltoall(torch::full({ranks, 1}, rank)).tensor.view({-1}).equal(torch::arange(ranks)),
         "alltoall without splits");

  const std::int64_t rows = 2 * ranks + 1;
  const Tensor part = hvd::reducescatter(rows_of(0, rows), hvd::ReduceOp::sum);
  const std::int64_t mine = rank == 0 ? 3 : 2;
  expect(part.equal(rows_of(0, rows).narrow(0, rank == 0 ? 0 : 2 * rank + 1, mine) * ranks),
         "reducescatter gives the first rank one row more");
  expect(hvd::reducescatter(torch::ones({0, 4})).sizes() == torch::IntArrayRef({0, 4}),
         "reducescatter of nothing");
}

void check_sparse() {
  const int ranks = hvd::size();
  const Tensor indices = torch::tensor({{0, hvd::rank()}, {1, 2}}, torch::kLong);
  const Tensor values = torch::tensor({2.0F, 3.0F});
  const Tensor mine = torch::sparse_coo_tensor(indices, values, {ranks, 4});
  Tensor expected = torch::zeros({ranks, 4});
  for (int rank = 0; rank < ranks; ++rank) {
    expected[0][1] += 2;
    expected[rank][2] += 3;
  }
  expect(hvd::sparse_allreduce(mine, hvd::ReduceOp::sum).to_dense().equal(expected), "sparse sum");
  expect(hvd::sparse_allreduce(mine).to_dense().allclose(expected / ranks), "sparse average");
  const Tensor none =
      torch::sparse_coo_tensor(torch::empty({2, 0}, torch::kLong), torch::empty({0}), {ranks, 4});
  expect(hvd::sparse_allreduce(none).to_dense().equal(torch::zeros({ranks, 4})), "nothing at all");
}

// Trained on its own part of the rows, each rank gets what BatchNorm makes of all of them.
void check_batch_norm(const std::vector<std::int64_t>& sizes, bool affine) {
  const int ranks = hvd::size();
  const auto options = torch::nn::BatchNormOptions(3).momentum(0.3).affine(affine);
  torch::nn::BatchNorm2d whole(options);
  hvd::SyncBatchNorm part(options);
  if (affine) {
    const at::NoGradGuard no_grad;
    for (Tensor& weight : whole->parameters()) weight.copy_(torch::tensor({0.5F, 2.0F, -1.0F}));
    for (Tensor& weight : part->parameters()) weight.copy_(torch::tensor({0.5F, 2.0F, -1.0F}));
  }
  std::int64_t begin = 0;
  std::int64_t rows = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::int64_t size = sizes[static_cast<std::size_t>(rank) % sizes.size()];
    if (rank < hvd::rank()) begin += size;
    rows += size;
  }
  const std::int64_t mine = sizes[static_cast<std::size_t>(hvd::rank()) % sizes.size()];
  for (int step = 0; step < 3; ++step) {
    torch::manual_seed(step);
    // A mean that is large against the deviation.
    const Tensor all = (torch::randn({rows, 3, 4, 2}) + 30).requires_grad_();
    const Tensor target = torch::randn({rows, 3, 4, 2});
    const Tensor own = all.detach().narrow(0, begin, mine).clone().requires_grad_();
    whole->zero_grad();
    part->zero_grad();
    const Tensor expected = whole->forward(all);
    const Tensor got = part->forward(own);
    (expected * target).sum().backward();
    (got * target.narrow(0, begin, mine)).sum().backward();
    const auto close = [&](const Tensor& a, const Tensor& b, const char* what) {
      expect(a.allclose(b, 1e-4, 2e-4), std::string("SyncBatchNorm: ") + what);
    };
    close(got, expected.narrow(0, begin, mine), "output");
    close(own.grad(), all.grad().narrow(0, begin, mine), "gradient of the input");
    close(part->running_mean, whole->running_mean, "running mean");
    close(part->running_var, whole->running_var, "running variance");
    for (std::size_t i = 0; i < part->parameters().size(); ++i)
      close(hvd::allreduce(part->parameters()[i].grad(), hvd::ReduceOp::sum),
            whole->parameters()[i].grad(), "gradient of a parameter");
  }
  part->eval();
  whole->eval();
  const Tensor row = torch::ones({1 + hvd::rank(), 3, 1, 1});
  expect(part->forward(row).allclose(whole->forward(row), 1e-4, 1e-4), "SyncBatchNorm: eval");
}

void check_batch_norms() {
  check_batch_norm({4}, true);
  check_batch_norm({1, 5, 0}, true);
  check_batch_norm({2, 3}, false);
  hvd::SyncBatchNorm layer(3);
  // Sums of 16 bits would be off by more than the result.
  const Tensor half = torch::randn({50, 3}).to(torch::kHalf);
  expect(layer->forward(half).scalar_type() == torch::kHalf, "SyncBatchNorm: dtype");
  expect(error_of([&] {
           layer->forward(torch::ones({4, 5}));
         }) == "SyncBatchNorm: 5 features; the layer was made for 3",
         "SyncBatchNorm: features");
  expect(error_of([&] { layer->forward(torch::ones({3})); }) ==
             "SyncBatchNorm: a tensor of 1 dimensions; at least {batch, features}",
         "SyncBatchNorm: dimensions");
}

// The file is there whole when the call returns, on whatever rank; a failure is everybody's.
void check_checkpoint(const std::string& folder) {
  const std::string path = folder + "/checkpoint";
  const auto content = [&] {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const auto write = [](const std::string& text) {
    return [text](const std::string& file) { std::ofstream(file) << text; };
  };
  const int root = hvd::size() - 1;
  hvd::checkpoint_on_root(path, write("first"), root);
  expect(content() == "first", "the first checkpoint");
  hvd::barrier();
  hvd::checkpoint_on_root(path, write("second"));
  expect(content() == "second", "the second checkpoint");
  const std::string failed = error_of([&] {
    hvd::checkpoint_on_root(
        path,
        [](const std::string& file) {
          std::ofstream(file) << "half";
          throw std::runtime_error("no model");
        },
        root);
  });
  expect(
      failed == "checkpoint_on_root: " + path + " of rank " + std::to_string(root) + ": no model",
      failed);
  expect(content() == "second", "the old file stays");
  expect(!std::ifstream(path + ".new"), "nothing is left");
  expect(
      error_of([&] { hvd::checkpoint_on_root("/no/such/folder/file", write("")); }) ==
          "checkpoint_on_root: /no/such/folder/file of rank 0: /no/such/folder/file.new: No such "
          "file or directory",
      "a folder that is not there");
}

torch::nn::Sequential make_model() {
  torch::manual_seed(7);
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
}

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<Tensor> parameters)>;

constexpr std::int64_t kRowsPerRank = 4;
constexpr int kSteps = 12;

Tensor loss_of(torch::nn::Sequential& model, const Tensor& input, const Tensor& target) {
  return torch::mse_loss(model->forward(input), target);
}

// The largest difference between parameters after training on all rows here, and on each rank's own
// rows by all of them together.
double training_difference(const MakeOptimizer& make, hvd::DistributedOptimizerOptions options) {
  torch::manual_seed(11);
  const std::int64_t rows = kRowsPerRank * hvd::size();
  const Tensor input = torch::randn({rows, 6});
  const Tensor target = torch::randn({rows, 3});

  torch::nn::Sequential alone = make_model();
  const auto single = make(alone->parameters());
  for (int step = 0; step < kSteps; ++step) {
    single->zero_grad();
    loss_of(alone, input, target).backward();
    single->step();
  }

  torch::nn::Sequential shared = make_model();
  if (hvd::rank() != 0)
    for (Tensor& parameter : shared->parameters()) parameter.detach().fill_(5);
  hvd::broadcast_parameters(*shared);
  const auto inner = make(shared->parameters());
  hvd::DistributedOptimizer optimizer(*inner, options);
  const std::int64_t passes = options.backward_passes_per_step;
  const std::int64_t batch = kRowsPerRank / passes;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (std::int64_t pass = 0; pass < passes; ++pass) {
      const std::int64_t begin = kRowsPerRank * hvd::rank() + pass * batch;
      loss_of(shared, input.narrow(0, begin, batch), target.narrow(0, begin, batch)).backward();
    }
    optimizer.step();
  }
  double most = 0;
  for (std::size_t i = 0; i < alone->parameters().size(); ++i) {
    const Tensor difference = (alone->parameters()[i] - shared->parameters()[i]).abs().max();
    most = std::max(most, difference.item<double>());
    // The same bits on every rank.
    const Tensor all = hvd::allgather(shared->parameters()[i].detach().reshape({1, -1}));
    for (int rank = 1; rank < hvd::size(); ++rank)
      expect(all[rank].equal(all[0]), "parameters of the ranks differ");
  }
  return most;
}

void check_training() {
  const std::vector<std::pair<const char*, MakeOptimizer>> optimizers{
      {"sgd",
       [](std::vector<Tensor> parameters) {
         return std::make_unique<torch::optim::SGD>(std::move(parameters), 0.1);
       }},
      {"momentum",
       [](std::vector<Tensor> parameters) {
         return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                                    torch::optim::SGDOptions(0.1).momentum(0.9));
       }},
      {"adam", [](std::vector<Tensor> parameters) {
         return std::make_unique<torch::optim::Adam>(std::move(parameters), 0.01);
       }}};
  for (const auto& optimizer : optimizers) {
    const std::string name = optimizer.first;
    const MakeOptimizer& make = optimizer.second;
    const auto check = [&](const char* how, double bound, const auto& change) {
      hvd::DistributedOptimizerOptions options;
      change(options);
      const double difference = training_difference(make, options);
      if (hvd::rank() == 0)
        std::printf("%s, %s: parameters differ by %.2g at most (bound %.2g)\n", name.c_str(), how,
                    difference, bound);
      expect(difference <= bound, name + ", " + how + ": " + std::to_string(difference));
    };
    check("plain", 2e-6, [](auto&) {});
    check("two passes", 2e-6, [](auto& options) {
      options.backward_passes_per_step = 2;
      options.average_aggregated_gradients = true;
    });
    check("predivided", 2e-6, [](auto& options) { options.gradient_predivide_factor = 2; });
    // A step of Adam has the size of its rate whatever the gradient, so that the rounding of a
    // gradient near 0 costs more there.
    check("fp16", 2e-3, [](auto& options) { options.compression = hvd::Compression::fp16; });
    check("bf16", 2e-2, [](auto& options) { options.compression = hvd::Compression::bf16; });
  }
}

// Trains a little differently on each rank, takes over rank `root`'s state, and goes on alike.
template <class Optimizer, class Options>
void check_state(const char* what, const Options& options, const Options& others) {
  const int root = hvd::size() - 1;
  torch::nn::Sequential model = make_model();
  Optimizer optimizer(model->parameters(), hvd::rank() == root ? options : others);
  const Tensor input = torch::ones({4, 6}) * (hvd::rank() + 1);
  const Tensor target = torch::ones({4, 3});
  const auto step = [&](const Tensor& rows) {
    optimizer.step([&] {
      optimizer.zero_grad();
      Tensor loss = loss_of(model, rows, target);
      loss.backward();
      return loss;
    });
  };
  for (int i = 0; i < 3; ++i) step(input);
  hvd::broadcast_parameters(*model, root);
  hvd::broadcast_optimizer_state(optimizer, root);
  expect(optimizer.param_groups()[0].options().get_lr() == options.lr(), "rate of the root");
  for (int i = 0; i < 3; ++i) step(torch::ones({4, 6}));
  for (const Tensor& parameter : model->parameters()) {
    const Tensor all = hvd::allgather(parameter.detach().reshape({1, -1}));
    for (int rank = 1; rank < hvd::size(); ++rank)
      expect(all[rank].equal(all[0]), std::string(what) + ": the states of the ranks differ");
  }
}

// Saves nothing.
struct Stubborn : torch::optim::SGD {
  using SGD::SGD;
  void save(torch::serialize::OutputArchive&) const override {
    throw std::runtime_error("no paper\nat all");
  }
};

// An error on one rank ends nothing, and is the same on all.
void check_states_refused() {
  using namespace torch::optim;
  const int root = hvd::size() - 1;
  hvd::ErrorCode code{};
  const auto broadcast_of = [&](Optimizer& optimizer) {
    try {
      hvd::broadcast_optimizer_state(optimizer, root);
    } catch (const hvd::Error& error) {
      code = error.code();
      return std::string(error.what());
    }
    return std::string("no error");
  };
  torch::nn::Sequential model = make_model();
  Stubborn stubborn(model->parameters(), SGDOptions(0.1));
  const std::string unsaved = broadcast_of(stubborn);
  expect(code == hvd::ErrorCode::unavailable &&
             unsaved.find("broadcast_optimizer_state: rank " + std::to_string(root) +
                          " cannot save its state: no paper") != unsaved.npos &&
             unsaved.find("at all") == unsaved.npos,
         unsaved);
  if (hvd::size() == 1) return;
  SGD sgd(model->parameters(), SGDOptions(0.1).momentum(0.9));
  Adam adam(model->parameters(), AdamOptions(0.1));
  for (Optimizer* const optimizer : std::initializer_list<Optimizer*>{&sgd, &adam}) {
    loss_of(model, torch::ones({4, 6}), torch::ones({4, 3})).backward();
    optimizer->step();
  }
  const std::string untaken = broadcast_of(hvd::rank() == 0 ? static_cast<Optimizer&>(adam) : sgd);
  expect(code == hvd::ErrorCode::mismatch &&
             untaken.find("broadcast_optimizer_state: rank 0 cannot take the state over: ") !=
                 untaken.npos,
         untaken);
  hvd::broadcast_optimizer_state(sgd, root);
}

void check_states() {
  using namespace torch::optim;
  check_state<SGD>("sgd", SGDOptions(0.1).momentum(0.9), SGDOptions(0.3).momentum(0.5));
  check_state<Adam>("adam", AdamOptions(0.01), AdamOptions(0.2));
  check_state<LBFGS>("lbfgs", LBFGSOptions(0.5).max_iter(3), LBFGSOptions(0.25).max_iter(3));
  check_states_refused();
}

}  // namespace

int run(const Arguments& arguments) {
  return run_checks([&] {
    check_rows();
    check_sparse();
    check_training();
    check_states();
    check_batch_norms();
    check_checkpoint(arguments.at(0));
  });
}

}  // namespace hvdrun::test::tensors_probe
