// LibTorch's tensors on this rank's GPU, and a net trained there: scripts/gpu-check runs it with
// the PyTorch of a machine with a GPU. With --cpu all of it on the CPU, which is how CI runs it.
// Without a GPU it says why, with exit code 77.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/gpu/shared_gpu.h"
#include "tests/gpu/torch_graph.h"
#include "tests/gpu/torch_steps.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"

namespace {

using torch::indexing::Slice;
using Clock = std::chrono::steady_clock;

constexpr int kSkipped = 77;
constexpr std::int64_t kBatch = 50;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("wrong: ") + what);
}

void expect_equal(const at::Tensor& got, const at::Tensor& wanted, const char* what) {
  expect(got.device().type() == wanted.device().type() && torch::equal(got, wanted), what);
}

// All ranks have the same tensor, so every result is known.
void operations(const at::Device& device) {
  const std::int64_t n = hvd::size();
  const std::int64_t rank = hvd::rank();
  const at::Tensor x = torch::arange(4 * n * 3, torch::kFloat).view({4 * n, 3}).to(device);
  const at::Tensor mine = x.index({Slice(4 * rank, 4 * (rank + 1))});
  expect_equal(hvd::allreduce(x), x, "allreduce");
  expect_equal(hvd::allreduce(x, hvd::ReduceOp::sum, {0.5, 4}), x * 2 * n, "scale factors");
  expect_equal(hvd::allreduce(x, hvd::ReduceOp::average, {}, hvd::Compression::fp16), x, "fp16");
  expect_equal(hvd::allreduce(x, hvd::ReduceOp::adasum), x, "adasum");
  const hvd::TensorHandle later = hvd::allreduce_async(x, hvd::ReduceOp::max);
  const hvd::TensorHandle gathered = hvd::allgather_async(mine);
  expect_equal(hvd::synchronize(gathered), x, "allgather_async");
  expect_equal(hvd::synchronize(later), x, "allreduce_async");
  const auto both = hvd::grouped_allreduce({x, x.to(at::kInt)}, hvd::ReduceOp::sum);
  expect_equal(both.at(1), (x * n).to(at::kInt), "grouped_allreduce");
  expect_equal(hvd::grouped_allgather({mine, mine + 1}).at(1), x + 1, "grouped_allgather");
  expect_equal(hvd::broadcast(mine, 0), x.index({Slice(0, 4)}), "broadcast");
  expect_equal(hvd::reducescatter(x), mine, "reducescatter");
  expect_equal(hvd::synchronize(hvd::reducescatter_async(x)), mine, "reducescatter_async");
  expect_equal(hvd::alltoall(x).tensor, mine.repeat({n, 1}), "alltoall");
  const at::Tensor sparse = mine.to_sparse(1);
  expect_equal(hvd::sparse_allreduce(sparse, hvd::ReduceOp::average).to_dense(),
               hvd::allreduce(mine), "sparse_allreduce");

  const at::Tensor w = x.clone().requires_grad_();
  (2 * hvd::allreduce(w, hvd::ReduceOp::sum)).sum().backward();
  expect_equal(w.grad(), torch::full_like(x, 2.0 * static_cast<double>(n)), "its gradient");
}

struct Digits {
  at::Tensor images;  // float [n, 1, 28, 28]
  at::Tensor labels;
};

Digits digits(hvdrun::Split split, std::size_t count, const at::Device& device) {
  const hvdrun::LabelledImages made = hvdrun::synthetic_digits(split, count, 1);
  const auto n = static_cast<std::int64_t>(count);
  Digits all{torch::empty({n, 1, 28, 28}, at::kByte), torch::empty({n}, at::kByte)};
  std::memcpy(all.images.data_ptr(), made.images.pixels.data(), made.images.pixels.size());
  std::memcpy(all.labels.data_ptr(), made.labels.data(), made.labels.size());
  return {(all.images.to(at::kFloat) / 255 - 0.1307).div(0.3081).to(device),
          all.labels.to(at::kLong).to(device)};
}

// The layers of mnist-cnn, without dropout.
torch::nn::Sequential digit_net() {
  using namespace torch::nn;
  return Sequential(Conv2d(1, 10, 5), MaxPool2d(2), ReLU(), Conv2d(10, 20, 5), MaxPool2d(2), ReLU(),
                    Flatten(), Linear(320, 50), ReLU(), Linear(50, 10), LogSoftmax(1));
}

void training(const at::Device& device, hvd::Compression compression, const char* what) {
  torch::manual_seed(1);
  torch::nn::Sequential net = digit_net();
  net->to(device);
  hvd::broadcast_parameters(*net);
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(0.02 * hvd::size()).momentum(0.5));
  hvd::DistributedOptimizerOptions options;
  options.compression = compression;
  hvd::DistributedOptimizer optimizer(sgd, options);
  const Digits known = digits(hvdrun::Split::train, 4000, device);
  const Digits unseen = digits(hvdrun::Split::test, 1000, device);
  const std::int64_t steps = 4000 / (kBatch * hvd::size());
  auto begin = Clock::now();
  for (int epoch = 0; epoch < 4; ++epoch) {
    if (epoch == 1) begin = Clock::now();
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::int64_t at = (step * hvd::size() + hvd::rank()) * kBatch;
      optimizer.zero_grad();
      torch::nll_loss(net->forward(known.images.slice(0, at, at + kBatch)),
                      known.labels.slice(0, at, at + kBatch))
          .backward();
      optimizer.step();
    }
  }
  const torch::NoGradGuard no_grad;
  net->parameters().back().sum().item<float>();  // a GPU has then done all that was queued
  const double microseconds = microseconds_since(begin);
  const double right =
      net->forward(unseen.images).argmax(1).eq(unseen.labels).to(at::kDouble).mean().item<double>();
  const double images = 3.0 * static_cast<double>(steps * kBatch) * hvd::size();
  if (hvd::rank() == 0)
    std::printf("figure: the digits' net, %s, np %d: %.0f images/s, %.1f %% right\n", what,
                hvd::size(), 1e6 * images / microseconds, 100 * right);
  expect(hvd::metric_average(right) > 0.9, "the net has not learned");
}

// The caller's time that a submission takes, once the engine knows the order.
void submissions(const at::Device& device) {
  constexpr int kTensors = 200;
  std::vector<at::Tensor> tensors;
  tensors.reserve(kTensors);
  for (int i = 0; i < kTensors; ++i) tensors.push_back(torch::ones({256}).to(device));
  double submitted = 0;
  double whole = 0;
  for (int round = 0; round < 20; ++round) {
    std::vector<hvd::TensorHandle> handles;
    handles.reserve(kTensors);
    hvd::barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < kTensors; ++i) {
      hvd::OperationOptions options;
      options.name = "t" + std::to_string(i);
      at::Tensor& tensor = tensors[static_cast<std::size_t>(i)];
      handles.push_back(hvd::allreduce_async_(tensor, hvd::ReduceOp::average, {},
                                              hvd::Compression::none, options));
    }
    submitted = microseconds_since(begin) / kTensors;
    for (const hvd::TensorHandle& handle : handles) hvd::synchronize(handle);
    whole = microseconds_since(begin) / kTensors;
  }
  expect_equal(tensors.back(), torch::ones({256}).to(device), "many small tensors");
  if (hvd::rank() == 0)
    std::printf("figure: 1 KiB by allreduce_async_, np %d: %.1f us to submit, %.1f us in all\n",
                hvd::size(), submitted, whole);
}

}  // namespace

int main(int argc, char** argv) {
  const bool on_cpu = argc == 2 && std::strcmp(argv[1], "--cpu") == 0;
  if (argc > 1 && !on_cpu) {
    std::fprintf(stderr, "usage: torch_check [--cpu]\n");
    return 64;
  }
  try {
    hvdrun::test::share_gpu_if_asked();
    hvd::init();
    if (!on_cpu && (hvd::gpu() < 0 || !torch::cuda::is_available())) {
      std::printf("no GPU: %s\n",
                  hvd::gpu() < 0 ? "hvd::init() has taken none" : "this LibTorch cannot use one");
      return kSkipped;
    }
    torch::set_num_threads(1);
    const at::Device device = on_cpu
                                  ? at::Device(at::kCPU)
                                  : at::Device(at::kCUDA, static_cast<at::DeviceIndex>(hvd::gpu()));
    operations(device);
    hvdrun::test::check_sync_batch_norm(device);
    hvdrun::test::check_sparse_gradients(device);
    hvdrun::test::check_adasum_optimizer(device);
    training(device, hvd::Compression::none, "fp32");
    training(device, hvd::Compression::bf16, "gradients as bf16");
    submissions(device);
    if (hvd::rank() == 0)
      std::printf("passed: LibTorch's tensors, optimizers and a net, np %d\n", hvd::size());
    const std::string no_graph = hvdrun::test::no_torch_graph(device);
    if (no_graph.empty()) hvdrun::test::check_torch_graph(device);
    if (hvd::rank() == 0)
      std::printf("%s: a step in a CUDA graph%s%s\n", no_graph.empty() ? "passed" : "left out",
                  no_graph.empty() ? "" : ": ", no_graph.c_str());
    hvd::shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "FAILED: %s\n", error.what());
    return 1;
  }
  return 0;
}
