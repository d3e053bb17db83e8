#include "tests/gpu/torch_graph.h"

#ifdef HVD_TORCH_CUDA
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <vector>

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <hvd/torch.h>
#endif

namespace hvdrun::test {

#ifdef HVD_TORCH_CUDA
namespace {

constexpr std::int64_t kRows = 32;
constexpr std::int64_t kColumns = 64;
constexpr double kLearningRate = 0.05;

// By hand instead of by an optimizer. A graph has the addresses of what it was captured with, so
// nothing may be allocated anew. The step counts of an optimizer are the host's.
struct Line {
  explicit Line(const at::Device& device)
      : inputs(torch::zeros({kRows, kColumns}).to(device)),
        wanted(torch::zeros({kRows, 1}).to(device)),
        weights(torch::ones({kColumns, 1}).to(device).requires_grad_()) {
    weights.mutable_grad() = torch::zeros_like(weights);
  }

  // Its gradients are averaged, and the same goes for the loss, which is what a call that is not in
  // place gives.
  void step() {
    weights.mutable_grad().zero_();
    const at::Tensor mine = (inputs.matmul(weights) - wanted).square().mean();
    mine.backward();
    const at::NoGradGuard no_grad;
    hvd::OperationOptions options;
    options.name = "the gradient of a line";
    const hvd::TensorHandle reduced = hvd::allreduce_async_(
        weights.mutable_grad(), hvd::ReduceOp::average, {}, hvd::Compression::none, options);
    loss = hvd::allreduce(mine.detach());
    hvd::synchronize(reduced);
    weights.add_(weights.grad(), -kLearningRate);
  }

  // New numbers into the same memory; other ones on each rank.
  void feed(int round) {
    torch::manual_seed(100 * round + hvd::rank());
    const at::Tensor x = torch::randn({kRows, kColumns});
    inputs.copy_(x);
    wanted.copy_(x.sum(1, /*keepdim=*/true) * 3 + 1);
  }

  at::Tensor inputs;
  at::Tensor wanted;
  at::Tensor weights;
  at::Tensor loss;
};

void expect_alike(const at::Tensor& got, const at::Tensor& wanted, const char* what) {
  if (!torch::allclose(got, wanted, 1e-4, 1e-5))
    throw std::runtime_error(std::string("wrong: ") + what);
}

}  // namespace

std::string no_torch_graph(const at::Device& device) {
  return device.is_cuda() ? "" : "the CPU has no graphs";
}

void check_torch_graph(const at::Device& device) {
  constexpr int kRounds = 5;
  constexpr int kLaunches = 100;
  // The default stream cannot be captured. Not by CUDAStreamGuard, which is all in its header and
  // calls the CUDA runtime: that is not linked.
  const c10::StreamGuard guard(c10::cuda::getStreamFromPool(false, device.index()).unwrap());
  Line plain(device);
  Line captured(device);
  // Before the capture: communicator and libraries are made by what runs first.
  for (int i = 0; i < 3; ++i) {
    captured.feed(0);
    captured.step();
  }
  {
    const at::NoGradGuard no_grad;
    captured.weights.fill_(1);
  }
  torch::cuda::synchronize(device.index());
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  captured.step();
  graph.capture_end();
  for (int round = 1; round <= kRounds; ++round) {
    plain.feed(round);
    plain.step();
    captured.feed(round);
    graph.replay();
    expect_alike(captured.loss, plain.loss, "the loss of a step in a graph");
    expect_alike(captured.weights.detach(), plain.weights.detach(), "the weights after it");
  }
  torch::cuda::synchronize(device.index());
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) graph.replay();
  torch::cuda::synchronize(device.index());
  const double each =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
      kLaunches;
  if (hvd::rank() == 0)
    std::printf("figure: a step of LibTorch with two allreduces in a graph, np %d: %.1f us\n",
                hvd::size(), each);
  // The graph and what it names must outlive its last run on every rank.
  hvd::barrier();
}

#else

std::string no_torch_graph(const at::Device& /*device*/) {
  return "this is built with a LibTorch without CUDA";
}

void check_torch_graph(const at::Device& /*device*/) {}

#endif

}  // namespace hvdrun::test
