// Two halves of a real job that know nothing of each other: parameters, states, metrics, schedules,
// checkpoints and batch normalization in process sets. The first argument is an empty folder. The
// first difference ends the rank with its words and exit code 1.
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::set_probe {
namespace {

using torch::Tensor;

struct Half {
  hvd::ProcessSet set;
  std::vector<int> ranks;
  int root;     // the last of them
  double mean;  // of their numbers
};

// Process sets of odd ranks and of even ones; nothing where there is one half only.
Half half() {
  std::vector<int> halves[2];
  for (int rank = 0; rank < hvd::size(); ++rank) halves[rank % 2].push_back(rank);
  const hvd::ProcessSet even = hvd::add_process_set(halves[0], "even");
  const hvd::ProcessSet odd = hvd::add_process_set(halves[1], "odd");
  const std::vector<int>& mine = halves[hvd::rank() % 2];
  double sum = 0;
  for (const int rank : mine) sum += rank;
  return {hvd::rank() % 2 == 0 ? even : odd, mine, mine.back(),
          sum / static_cast<double>(mine.size())};
}

void check_parameters(const Half& own) {
  torch::nn::Sequential model(torch::nn::Linear(2, 3), torch::nn::BatchNorm1d(3));
  const torch::NoGradGuard no_grad;
  const auto fill = [&] {
    for (const Tensor& parameter : model->parameters()) Tensor(parameter).fill_(hvd::rank());
    for (const Tensor& buffer : model->buffers()) Tensor(buffer).fill_(hvd::rank());
  };
  const auto check = [&](double value, const std::string& what) {
    for (const Tensor& parameter : model->parameters())
      expect(parameter.equal(torch::full_like(parameter, value)), what);
  };
  fill();
  hvd::broadcast_parameters(*model, own.root, own.set);
  check(own.root, "broadcast_parameters of a module");
  for (const Tensor& buffer : model->buffers())
    expect(buffer.equal(torch::full_like(buffer, own.root)), "broadcast_parameters: a buffer");
  fill();
  hvd::broadcast_parameters(model->named_parameters(), own.root, own.set);
  check(own.root, "broadcast_parameters by name");
  expect(model->buffers()[0].equal(torch::full_like(model->buffers()[0], hvd::rank())),
         "broadcast_parameters by name: a buffer that was not named");
  fill();
  hvd::broadcast_parameters(model->parameters(), own.root, own.set);
  check(own.root, "broadcast_parameters of a list");
}

// An error names the tensor; the others have been sent.
void check_mismatch(const Half& own) {
  if (own.ranks.size() == 1) return;
  const torch::NoGradGuard no_grad;
  torch::OrderedDict<std::string, Tensor> variables;
  variables.insert("same", torch::full({2}, hvd::rank()));
  variables.insert("other", torch::ones({hvd::rank() == own.root ? 3 : 4}));
  variables.insert("last", torch::full({2}, hvd::rank()));
  const std::string text =
      error_of([&] { hvd::broadcast_parameters(variables, own.root, own.set); });
  expect(text.find("'broadcast_parameters.other'") != std::string::npos, text);
  for (const char* const name : {"same", "last"})
    expect(variables[name].equal(torch::full({2}, own.root)), std::string("after it: ") + name);
}

void check_state(const Half& own) {
  Tensor weight = torch::ones({3}).requires_grad_();
  torch::optim::SGD sgd({weight}, torch::optim::SGDOptions(hvd::rank() + 1).momentum(0.5));
  (weight * hvd::rank()).sum().backward();
  sgd.step();
  hvd::broadcast_optimizer_state(sgd, own.root, own.set);
  const auto& options = static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options());
  expect(options.lr() == own.root + 1, "broadcast_optimizer_state: the rate");
  const auto& state = static_cast<torch::optim::SGDParamState&>(*sgd.state().begin()->second);
  expect(state.momentum_buffer().equal(torch::full({3}, own.root)),
         "broadcast_optimizer_state: the momentum");
}

void check_metrics(const Half& own) {
  expect(hvd::metric_average(hvd::rank(), own.set) == own.mean, "metric_average");
  const auto means = hvd::metric_average({{"a", hvd::rank()}, {"b", 2.0 * hvd::rank()}}, own.set);
  expect(means.at("a") == own.mean && means.at("b") == 2 * own.mean, "metric_average by name");
  if (own.ranks.size() > 1) {
    const std::string mine = hvd::rank() == own.root ? "x" : "y";
    const std::string text = error_of([&] { hvd::metric_average({{mine, 1.0}}, own.set); });
    expect(text == "metric_average: rank " + std::to_string(own.ranks[0]) + " has y, but rank " +
                       std::to_string(own.root) + " has x",
           text);
  }
  // Where the average gets no better there is no further epoch: for odd ranks from the second on.
  hvd::EarlyStopOptions options;
  options.process_set = own.set;
  hvd::EarlyStop early(options);
  int epochs = 1;
  while (epochs < 5 && !early.update(hvd::rank() % 2 == 1 ? 1.0 + hvd::rank() : 10.0 - epochs))
    ++epochs;
  expect(epochs == (hvd::rank() % 2 == 1 ? 2 : 5), "EarlyStop: " + std::to_string(epochs));
}

void check_warm_up(const Half& own) {
  Tensor weight = torch::ones({3}).requires_grad_();
  torch::optim::SGD sgd({weight}, 1.0);
  hvd::LearningRateSchedule warmup = hvd::warmup_schedule(sgd, 1.0, 1, 10, true, own.set);
  warmup.on_epoch_begin(0);
  warmup.on_batch_begin(0);
  const double ranks = static_cast<double>(own.ranks.size());
  const double rate = sgd.param_groups()[0].options().get_lr();
  expect(std::abs(rate - (0.1 * (ranks - 1) + 1) / ranks) < 1e-12,
         "warmup_schedule: " + std::to_string(rate));
  warmup.on_batch_end();
}

void check_checkpoint(const Half& own, const std::string& folder) {
  const std::string path = folder + "/" + std::to_string(own.root);
  hvd::checkpoint_on_root(
      path, [](const std::string& file) { std::ofstream(file) << hvd::rank(); }, own.root, own.set);
  int written = -1;
  std::ifstream(path) >> written;
  expect(written == own.root, "checkpoint_on_root: " + std::to_string(written));
  const std::string text = error_of([&] {
    hvd::checkpoint_on_root(
        path, [](const std::string&) { throw std::runtime_error("no ink"); }, own.root, own.set);
  });
  expect(
      text == "checkpoint_on_root: " + path + " of rank " + std::to_string(own.root) + ": no ink",
      text);
}

Tensor batch_of(int rank) {
  torch::manual_seed(rank);
  return torch::randn({2 + rank, 3, 4}, torch::kDouble) * (rank + 1) + rank;
}

// As BatchNorm of the batches of the half's ranks, one below the other.
void check_batch_norm(const Half& own, torch::nn::BatchNormOptions options) {
  hvd::SyncBatchNorm layer(options, own.set);
  layer->to(torch::kDouble);
  torch::nn::BatchNorm1d whole(options);
  whole->to(torch::kDouble);
  std::int64_t begin = 0;
  std::vector<Tensor> batches;
  for (const int rank : own.ranks) {
    if (rank < hvd::rank()) begin += 2 + rank;
    batches.push_back(batch_of(rank));
  }
  const Tensor all = torch::cat(batches).requires_grad_();
  const Tensor mine = batch_of(hvd::rank()).requires_grad_();
  for (int step = 0; step < 2; ++step) {
    const Tensor wanted = whole->forward(all);
    const Tensor got = layer->forward(mine);
    expect(got.allclose(wanted.narrow(0, begin, mine.size(0)), 1e-9, 1e-9), "SyncBatchNorm");
    wanted.pow(3).sum().backward();
    got.pow(3).sum().backward();
  }
  expect(mine.grad().allclose(all.grad().narrow(0, begin, mine.size(0)), 1e-9, 1e-9),
         "SyncBatchNorm: gradient");
  expect(layer->running_mean.allclose(whole->running_mean, 1e-9, 1e-9) &&
             layer->running_var.allclose(whole->running_var, 1e-9, 1e-9) &&
             layer->num_batches_tracked.equal(whole->num_batches_tracked),
         "SyncBatchNorm: running statistics");
}

}  // namespace

int run(const Arguments& arguments) {
  return run_checks([&] {
    if (hvd::size() == 1) return;
    const Half own = half();
    check_parameters(own);
    check_mismatch(own);
    check_state(own);
    check_metrics(own);
    check_warm_up(own);
    check_checkpoint(own, arguments.at(0));
    check_batch_norm(own, torch::nn::BatchNormOptions(3));
    check_batch_norm(own, torch::nn::BatchNormOptions(3).momentum(c10::nullopt));
    hvd::barrier();
  });
}

}  // namespace hvdrun::test::set_probe
