#include <limits>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::fake_job;
using test::reset_fake_job;

TEST_CASE("a handle gives the reduced tensor, in place or not", "[handle]") {
  reset_fake_job();
  torch::Tensor tensor = torch::arange(6, torch::kFloat).view({2, 3});
  const torch::Tensor copy = tensor.clone();
  const auto compression = GENERATE(hvd::Compression::none, hvd::Compression::bf16);
  SECTION("a new one") {
    const auto handle = hvd::allreduce_async(tensor, hvd::ReduceOp::sum, {}, compression);
    CHECK_FALSE(hvd::poll(handle));
    const torch::Tensor result = hvd::synchronize(handle);
    CHECK(result.equal(copy * 10));
    CHECK(result.scalar_type() == torch::kFloat);
    CHECK(tensor.equal(copy));
  }
  SECTION("in place") {
    const auto handle = hvd::allreduce_async_(tensor, hvd::ReduceOp::sum, {}, compression);
    CHECK(hvd::synchronize(handle).is_same(tensor));
    CHECK(tensor.equal(copy * 10));
  }
  SECTION("in place, of any strides") {
    torch::Tensor turned = tensor.t();
    hvd::synchronize(hvd::allreduce_async_(turned, hvd::ReduceOp::sum, {}, compression));
    CHECK(tensor.equal(copy * 10));
  }
}

TEST_CASE("a handle gives the tensors of a group", "[handle]") {
  reset_fake_job();
  const std::vector<torch::Tensor> tensors{torch::ones({2, 3}), torch::ones({2}, torch::kLong)};
  const auto handle = hvd::grouped_allreduce_async(tensors, hvd::ReduceOp::sum);
  const auto results = hvd::synchronize_all(handle);
  REQUIRE(results.size() == 2);
  CHECK(results[0].equal(tensors[0] * 10));
  CHECK(results[1].equal(tensors[1] * 10));
  CHECK_THAT(error_of([&] { hvd::synchronize_all(handle); }), Contains("result was taken"));
  CHECK(hvd::synchronize_all(hvd::grouped_allreduce_async({})).empty());
}

TEST_CASE("the last copy of a handle waits for what nobody asked for", "[handle]") {
  reset_fake_job();
  {
    const auto handle = hvd::allreduce_async(torch::ones({4}));
    const auto copy = handle;  // NOLINT(performance-unnecessary-copy-initialization)
    CHECK_FALSE(fake_job().calls[0].waited_for);
  }
  CHECK(fake_job().calls[0].waited_for);
}

TEST_CASE("an operation's error comes with its result", "[handle]") {
  reset_fake_job();
  fake_job().failing_call = 0;
  const auto handle = hvd::allreduce_async(torch::ones({4}));
  CHECK_THAT(error_of([&] { hvd::synchronize(handle); }, hvd::ErrorCode::peer_lost),
             Contains("rank 2 is gone"));
}

TEST_CASE("the loss is scaled, the gradient is not", "[scaler]") {
  reset_fake_job();
  torch::Tensor weight = torch::ones({3}).requires_grad_();
  torch::optim::SGD sgd({weight}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  hvd::LossScalerOptions options;
  options.initial_scale = 1024;
  options.growth_interval = 2;
  hvd::LossScaler scaler(options);
  const auto backward = [&](float factor) {
    optimizer.zero_grad();
    scaler.scale((weight * factor).sum()).backward();
  };
  SECTION("clipped in between") {
    backward(4);
    CHECK(weight.grad().equal(torch::full({3}, 4096)));
    CHECK(scaler.unscale(optimizer));
    CHECK(weight.grad().equal(torch::full({3}, 10)));
    weight.mutable_grad().clamp_max_(2);
    CHECK(scaler.step(optimizer));
    CHECK(weight.equal(torch::full({3}, -1)));
    backward(4);
    CHECK(scaler.step(optimizer));
    CHECK(weight.equal(torch::full({3}, -11)));
    CHECK(scaler.value() == 2048);
  }
  SECTION("an overflow leaves the step out") {
    backward(std::numeric_limits<float>::infinity());
    CHECK_FALSE(scaler.step(optimizer));
    CHECK(weight.equal(torch::ones({3})));
    CHECK(weight.grad().equal(torch::zeros({3})));
    CHECK(scaler.value() == 512);
    backward(4);
    CHECK(scaler.step(optimizer));
    CHECK(weight.equal(torch::full({3}, -9)));
  }
}

TEST_CASE("a scale that could not work is refused", "[scaler]") {
  hvd::LossScalerOptions options;
  SECTION("zero") { options.initial_scale = 0; }
  SECTION("does not shrink") { options.backoff_factor = 1; }
  SECTION("shrinks where it should grow") { options.growth_factor = 0.5; }
  SECTION("never grows") { options.growth_interval = 0; }
  CHECK_THAT(error_of([&] { hvd::LossScaler scaler(options); }), Contains("LossScaler: "));
}

TEST_CASE("with adasum the steps of the ranks are combined, not their gradients", "[adasum]") {
  reset_fake_job();
  torch::Tensor weight = torch::ones({3}).requires_grad_();
  torch::Tensor idle = torch::ones({2}).requires_grad_();
  torch::optim::SGD sgd({weight, idle}, 0.5);
  hvd::DistributedOptimizerOptions options;
  options.op = hvd::ReduceOp::adasum;
  hvd::DistributedOptimizer optimizer(sgd, options);
  (weight * 4).sum().backward();
  CHECK(fake_job().calls.empty());
  optimizer.step();
  REQUIRE(fake_job().calls.size() == 2);
  CHECK(fake_job().calls[0].op == hvd::ReduceOp::adasum);
  CHECK(weight.grad().equal(torch::full({3}, 4)));
  // The fake's adasum is a sum: ten times our change of -2.
  CHECK(weight.equal(torch::full({3}, -19)));
  CHECK(idle.equal(torch::ones({2})));
  optimizer.zero_grad();
  CHECK((!weight.grad().defined() || weight.grad().equal(torch::zeros({3}))));

  options.gradient_predivide_factor = 2;
  CHECK_THAT(error_of([&] { hvd::DistributedOptimizer other(sgd, options); }),
             Contains("op is adasum"));
}

}  // namespace
}  // namespace hvdrun
