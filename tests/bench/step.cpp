// What communication adds to a training step: <hvd/torch.h>'s DistributedOptimizer against the
// plain optimizer on a second model of the same shape, in blocks that alternate within this
// process.
//
//   step BLOCKS STEPS    prints the median seconds of a step with and without communication
//
// A step's time is that of its slowest rank. ddp_step.py does the same with PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <hvd/torch.h>

namespace {

constexpr std::int64_t kInput = 1024;
constexpr std::int64_t kWidth = 2048;
constexpr std::int64_t kClasses = 1000;
constexpr int kHidden = 5;  // layers kWidth x kWidth; 25.1 M parameters in all
constexpr std::int64_t kBatch = 8;
constexpr std::size_t kBatches = 8;
constexpr int kWarmUp = 3;

torch::nn::Sequential make_model() {
  torch::manual_seed(1);
  torch::nn::Sequential model;
  model->push_back(torch::nn::Linear(kInput, kWidth));
  for (int i = 0; i < kHidden; ++i) {
    model->push_back(torch::nn::ReLU());
    model->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  model->push_back(torch::nn::ReLU());
  model->push_back(torch::nn::Linear(kWidth, kClasses));
  return model;
}

torch::optim::SGD make_sgd(torch::nn::Sequential& model) {
  return torch::optim::SGD(model->parameters(), torch::optim::SGDOptions(0.01).momentum(0.9));
}

struct Batch {
  torch::Tensor data;
  torch::Tensor target;
};

std::vector<Batch> make_batches() {
  torch::manual_seed(100 + static_cast<std::uint64_t>(hvd::rank()));
  std::vector<Batch> batches(kBatches);
  for (Batch& batch : batches) {
    batch.data = torch::randn({kBatch, kInput});
    batch.target = torch::randint(kClasses, {kBatch}, torch::kLong);
  }
  return batches;
}

template <class Optimizer>
double step(torch::nn::Sequential& model, Optimizer& optimizer, const Batch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  optimizer.zero_grad();
  const torch::Tensor loss =
      torch::nn::functional::cross_entropy(model->forward(batch.data), batch.target);
  loss.backward();
  optimizer.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

torch::Tensor flat(const torch::nn::Sequential& model) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& parameter : model->parameters())
    parts.push_back(parameter.detach().flatten());
  return torch::cat(parts);
}

// After one step from the same start, on inputs that differ: the parameters of the distributed
// model are the same on all ranks, and the mean of what every rank has got alone, which is
// something else.
bool averaged(const torch::nn::Sequential& distributed, const torch::nn::Sequential& alone) {
  const torch::Tensor got = flat(distributed);
  const torch::Tensor mine = flat(alone);
  const bool same = torch::equal(hvd::allreduce(got, hvd::ReduceOp::max),
                                 hvd::allreduce(got, hvd::ReduceOp::min));
  const auto away = (got - hvd::allreduce(mine)).abs().max().item<double>();
  const auto differ = (got - mine).abs().max().item<double>();
  const bool right = same && away < 1e-6 && (hvd::size() == 1 || differ > 1e-4);
  if (!right) {
    std::fprintf(stderr, "gradients are not averaged: same %d, off by %g, alone %g\n", same, away,
                 differ);
  }
  return right;
}

double median_of_slowest(std::vector<double>& seconds) {
  hvd::allreduce(seconds.data(), seconds.data(), seconds.size(), hvd::ReduceOp::max);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

int run(int blocks, int steps) {
  const std::vector<Batch> batches = make_batches();
  torch::nn::Sequential model = make_model();
  torch::nn::Sequential alone = make_model();
  torch::optim::SGD sgd = make_sgd(model);
  torch::optim::SGD plain = make_sgd(alone);
  hvd::broadcast_parameters(*model);
  hvd::DistributedOptimizer optimizer(sgd);
  for (int i = 0; i < kWarmUp; ++i) {
    const Batch& batch = batches[static_cast<std::size_t>(i)];
    step(model, optimizer, batch);
    step(alone, plain, batch);
    if (i == 0 && !averaged(model, alone)) return 1;
  }
  std::vector<double> with;
  std::vector<double> without;
  for (int block = 0; block < blocks; ++block) {
    for (const bool on : {true, false}) {
      hvd::barrier();
      for (int i = 0; i < steps; ++i) {
        const Batch& batch = batches[static_cast<std::size_t>(i) % kBatches];
        if (on) {
          with.push_back(step(model, optimizer, batch));
        } else {
          without.push_back(step(alone, plain, batch));
        }
      }
    }
  }
  const double on = median_of_slowest(with);
  const double off = median_of_slowest(without);
  if (hvd::rank() == 0) std::printf("%.9f %.9f\n", on, off);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 64;
  torch::set_num_threads(1);
  hvd::init();
  const int code = run(std::atoi(argv[1]), std::atoi(argv[2]));
  hvd::shutdown();
  return code;
}
