// The weight of a rank's work in the first step of ranks that are new: we are rank 0 of four.
#include <algorithm>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"
#include "worker/hvd/elastic/first_step.h"

namespace hvdrun {
namespace {

using test::fake_job;
using test::reset_fake_job;
using torch::optim::SGD;

// A first step in which the state comes when `arrive` is called.
struct FirstStepFixture {
  FirstStepFixture() {
    reset_fake_job();
    first_step().take_ended();
  }
  ~FirstStepFixture() { first_step().end(); }
  FirstStepFixture(const FirstStepFixture&) = delete;
  FirstStepFixture& operator=(const FirstStepFixture&) = delete;
  void begin(const std::vector<int>& newcomers) {
    first_step().begin(newcomers, [this] {
      ++arrivals;
      const at::NoGradGuard no_grad;
      weight.fill_(10);
    });
  }
  at::Tensor weight = torch::ones({3}).requires_grad_();
  SGD sgd{{weight}, 1.0};
  int arrivals = 0;
};

TEST_CASE_METHOD(FirstStepFixture, "a new rank brings zeros, and steps on what it got",
                 "[elastic]") {
  hvd::DistributedOptimizerOptions options;
  options.op = GENERATE(hvd::ReduceOp::average, hvd::ReduceOp::sum);
  const bool average = options.op == hvd::ReduceOp::average;
  begin({0, 2});
  hvd::DistributedOptimizer optimizer(sgd, options);
  (weight * 4).sum().backward();
  REQUIRE(fake_job().calls.size() == 1);
  CHECK(fake_job().calls[0].op == hvd::ReduceOp::sum);
  CHECK(fake_job().calls[0].scale.postscale == (average ? 0.5 : 1));
  CHECK(weight.grad().sum().item<double>() == 0);  // before it is reduced
  CHECK(arrivals == 0);
  optimizer.step();
  CHECK(arrivals == 1);
  CHECK(weight.sum().item<double>() == 30);  // the fake's peers bring what we bring
  // Then it is a rank as all others.
  CHECK(hvd::elastic::contributor_rank() == 0);
  optimizer.zero_grad();
  (weight * 4).sum().backward();
  CHECK(fake_job().calls.back().op == options.op);
  CHECK(fake_job().calls.back().scale.postscale == 1);
  optimizer.step();
  CHECK(arrivals == 1);
  CHECK(weight.sum().item<double>() == Approx(30 - 3 * 4 * (average ? 2.5 : 10)));
}

TEST_CASE_METHOD(FirstStepFixture, "averages are over those who count", "[elastic]") {
  hvd::DistributedOptimizerOptions options;
  options.gradient_predivide_factor = GENERATE(1.0, 2.0);
  begin({3});
  hvd::DistributedOptimizer optimizer(sgd, options);
  CHECK(hvd::elastic::contributors() == 3);
  (weight * 4).sum().backward();
  const test::FakeCall& call = fake_job().calls.at(0);
  CHECK(call.op == hvd::ReduceOp::sum);
  CHECK(call.scale.prescale * call.scale.postscale == Approx(1.0 / 3));
  CHECK(weight.grad().sum().item<double>() == 12);
  first_step().end();
}

// The first of two optimizers that step in turn ends the first step.
TEST_CASE_METHOD(FirstStepFixture, "what was begun in a first step counts as it did then",
                 "[elastic]") {
  at::Tensor other = torch::ones({2}).requires_grad_();
  SGD second({other}, 1.0);
  hvd::DistributedOptimizerOptions twice;
  twice.backward_passes_per_step = 2;
  begin({0});
  hvd::DistributedOptimizer a(sgd);
  hvd::DistributedOptimizer b(second, twice);
  ((weight * 4).sum() + (other * 5).sum()).backward();
  a.step();
  CHECK(arrivals == 1);
  (other * 5).sum().backward();
  CHECK(fake_job().calls.back().scale.postscale == Approx(1.0 / 3));
  CHECK(other.grad().sum().item<double>() == 0);
  b.step();
}

TEST_CASE_METHOD(FirstStepFixture, "a new rank's zeros are what changes nothing", "[elastic]") {
  hvd::DistributedOptimizerOptions options;
  options.op = GENERATE(hvd::ReduceOp::max, hvd::ReduceOp::min, hvd::ReduceOp::product);
  begin({0});
  hvd::DistributedOptimizer optimizer(sgd, options);
  (weight * 4).sum().backward();
  const double brought = weight.grad()[0].item<double>();
  if (options.op == hvd::ReduceOp::product) CHECK(brought == 1);
  if (options.op == hvd::ReduceOp::max) CHECK(brought < -1e30);
  if (options.op == hvd::ReduceOp::min) CHECK(brought > 1e30);
  first_step().end();
}

TEST_CASE_METHOD(FirstStepFixture, "with adasum a new rank's step is none", "[elastic]") {
  SGD moved({weight}, torch::optim::SGDOptions(1.0).momentum(0.9));
  hvd::DistributedOptimizerOptions options;
  options.op = hvd::ReduceOp::adasum;
  begin({0});
  hvd::DistributedOptimizer optimizer(moved, options);
  (weight * 4).sum().backward();
  optimizer.step();
  CHECK(weight.sum().item<double>() == 30);  // as it came
  optimizer.zero_grad();
  optimizer.step();  // nothing is left of its gradient
  CHECK(weight.sum().item<double>() == 30);
}

TEST_CASE_METHOD(FirstStepFixture, "sparse and local gradients of a new rank count nothing",
                 "[elastic]") {
  at::Tensor rows = torch::ones({4, 2}).requires_grad_();
  at::Tensor own = torch::ones({2}).requires_grad_();
  SGD three({weight, rows, own}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.sparse = {rows};
  options.local = {own};
  begin({0});
  hvd::DistributedOptimizer optimizer(three, options);
  (weight.sum() + (rows * 3).sum() + (own * 3).sum()).backward();
  optimizer.synchronize();
  CHECK(rows.grad()._nnz() == 0);
  CHECK(own.grad().sum().item<double>() == 0);
}

TEST_CASE_METHOD(FirstStepFixture, "a new rank's batch is not normalised by", "[elastic]") {
  hvd::SyncBatchNorm norm(torch::nn::BatchNormOptions(2));
  begin({0});
  norm->forward(torch::randn({3, 2}) + 5);
  CHECK(norm->num_batches_tracked.item<std::int64_t>() == 0);  // nobody has anything
  first_step().end();
  norm->forward(torch::randn({3, 2}) + 5);
  CHECK(norm->num_batches_tracked.item<std::int64_t>() == 1);
}

TEST_CASE_METHOD(FirstStepFixture, "a first step that has ended is told of once", "[elastic]") {
  CHECK_FALSE(first_step().take_ended());
  begin({1});
  CHECK_FALSE(first_step().take_ended());
  hvd::elastic::catch_up();
  hvd::elastic::catch_up();
  CHECK(arrivals == 1);
  CHECK(first_step().take_ended());
  CHECK_FALSE(first_step().take_ended());
  CHECK(hvd::elastic::state_wait() >= 0);
}

}  // namespace
}  // namespace hvdrun
