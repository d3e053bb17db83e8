// The time that communication adds to a training step: <hvd/torch.h>'s DistributedOptimizer against
// the plain optimizer on a second model of the same shape. Both run in blocks that alternate within
// this process.
//
//   step MODEL BLOCKS STEPS          prints the median seconds of a step with and without
//                                    communication
//   step MODEL BLOCKS STEPS FILE     for each block the seconds of a step with communication that a
//                                    tenth of its steps are faster than, with the timeline, which
//                                    FILE has then, and without it
//                                    (hvdrun --timeline-filename DYNAMIC)
//
// MODEL: mlp, layers and a loss; gradients, parameters with the shapes of ResNet-50's and hardly
// any work to do for their gradients. A step's time is that of its slowest rank. ddp_step.py does
// the same with PyTorch.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
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

struct Batch {
  torch::Tensor data;
  torch::Tensor target;
};

struct Model {
  std::vector<torch::Tensor> parameters;
  std::function<torch::Tensor(const Batch& batch)> loss;
};

Model make_mlp() {
  torch::nn::Sequential model;
  model->push_back(torch::nn::Linear(kInput, kWidth));
  for (int i = 0; i < kHidden; ++i) {
    model->push_back(torch::nn::ReLU());
    model->push_back(torch::nn::Linear(kWidth, kWidth));
  }
  model->push_back(torch::nn::ReLU());
  model->push_back(torch::nn::Linear(kWidth, kClasses));
  return {model->parameters(), [model](const Batch& batch) mutable {
            return torch::nn::functional::cross_entropy(model->forward(batch.data), batch.target);
          }};
}

// In the order of the layers: 161 tensors, 25,557,032 elements.
std::vector<std::vector<std::int64_t>> resnet50_shapes() {
  std::vector<std::vector<std::int64_t>> shapes;
  const auto convolution = [&](std::int64_t out, std::int64_t in, std::int64_t kernel) {
    shapes.push_back({out, in, kernel, kernel});
    shapes.push_back({out});  // weight and bias of the batch norm
    shapes.push_back({out});
  };
  convolution(64, 3, 7);
  std::int64_t in = 64;
  std::int64_t width = 64;
  for (const int blocks : {3, 4, 6, 3}) {
    for (int block = 0; block < blocks; ++block) {
      convolution(width, in, 1);
      convolution(width, width, 3);
      convolution(4 * width, width, 1);
      if (block == 0) convolution(4 * width, in, 1);
      in = 4 * width;
    }
    width *= 2;
  }
  shapes.push_back({kClasses, in});
  shapes.push_back({kClasses});
  return shapes;
}

Model make_gradients() {
  Model model;
  for (const auto& shape : resnet50_shapes())
    model.parameters.push_back((torch::randn(shape) * 0.01).requires_grad_());
  model.loss = [parameters = model.parameters](const Batch& batch) {
    // Through one after the other, so that the last one's gradient is there first.
    torch::Tensor value = batch.data.sum() * 1e-3;
    for (const torch::Tensor& parameter : parameters) value = (value + parameter.mean()).tanh();
    return value;
  };
  return model;
}

Model make_model(const std::string& name) {
  torch::manual_seed(1);
  return name == "mlp" ? make_mlp() : make_gradients();
}

torch::optim::SGD make_sgd(const Model& model) {
  return torch::optim::SGD(model.parameters, torch::optim::SGDOptions(0.01).momentum(0.9));
}

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
double step(const Model& model, Optimizer& optimizer, const Batch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  optimizer.zero_grad();
  model.loss(batch).backward();
  optimizer.step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

torch::Tensor flat(const Model& model) {
  std::vector<torch::Tensor> parts;
  for (const torch::Tensor& parameter : model.parameters)
    parts.push_back(parameter.detach().flatten());
  return torch::cat(parts);
}

// After one step from the same start, on inputs that differ: the parameters of the distributed
// model are the same on all ranks. They are the mean of what every rank has got alone, which is
// something else.
bool averaged(const Model& distributed, const Model& alone) {
  const torch::Tensor got = flat(distributed);
  const torch::Tensor mine = flat(alone);
  const bool same = torch::equal(hvd::allreduce(got, hvd::ReduceOp::max),
                                 hvd::allreduce(got, hvd::ReduceOp::min));
  const auto away = (got - hvd::allreduce(mine)).abs().max().item<double>();
  const auto differ = (got - mine).abs().max().item<double>();
  const bool right = same && away < 1e-6 && (hvd::size() == 1 || differ > 1e-7);
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

int run(const std::string& name, int blocks, int steps) {
  const std::vector<Batch> batches = make_batches();
  const Model model = make_model(name);
  const Model alone = make_model(name);
  torch::optim::SGD sgd = make_sgd(model);
  torch::optim::SGD plain = make_sgd(alone);
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

// The step of each block that a tenth of its steps are faster than. What disturbs a step makes it
// longer, by far more than a timeline does: means and medians tell of the disturbances alone.
std::vector<double> fast_steps(std::vector<double> seconds, std::size_t steps) {
  hvd::allreduce(seconds.data(), seconds.data(), seconds.size(), hvd::ReduceOp::max);
  std::vector<double> blocks;
  for (auto block = seconds.begin(); block != seconds.end(); block += static_cast<long>(steps)) {
    std::sort(block, block + static_cast<long>(steps));
    blocks.push_back(block[static_cast<long>(steps / 10)]);
  }
  return blocks;
}

// Blocks with and without it in turn, each first every other time: what wanders, the clock of the
// processor above all, wanders for both. Blocks are compared with their neighbours only: over a
// minute steps differ by more than a timeline costs.
int run_timeline(const std::string& name, int blocks, int steps, const std::string& file) {
  const std::vector<Batch> batches = make_batches();
  const Model model = make_model(name);
  torch::optim::SGD sgd = make_sgd(model);
  hvd::DistributedOptimizer optimizer(sgd);
  for (int i = 0; i < kWarmUp; ++i) step(model, optimizer, batches[static_cast<std::size_t>(i)]);
  std::vector<double> with;
  std::vector<double> without;
  for (int block = 0; block < blocks; ++block) {
    for (const bool first : {true, false}) {
      const bool on = first == (block % 2 == 0);
      if (on) hvd::start_timeline(file);
      hvd::barrier();
      for (int i = 0; i < steps; ++i)
        (on ? with : without)
            .push_back(step(model, optimizer, batches[static_cast<std::size_t>(i) % kBatches]));
      if (on) hvd::stop_timeline();
    }
  }
  with = fast_steps(std::move(with), static_cast<std::size_t>(steps));
  without = fast_steps(std::move(without), static_cast<std::size_t>(steps));
  if (hvd::rank() != 0) return 0;
  for (std::size_t i = 0; i < with.size(); ++i) std::printf("%.9f %.9f\n", with[i], without[i]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return 64;
  torch::set_num_threads(1);
  hvd::init();
  const int code = argc == 5
                       ? run_timeline(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argv[4])
                       : run(argv[1], std::atoi(argv[2]), std::atoi(argv[3]));
  hvd::shutdown();
  return code;
}
