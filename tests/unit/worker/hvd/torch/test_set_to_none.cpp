// zero_grad(true): gradients are gone until backward has made them.
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using test::fake_job;
using test::reset_fake_job;

struct NoneFixture {
  void backward() { (a * 3).sum().backward(); }

  torch::Tensor a = torch::ones({4}).requires_grad_();
  torch::Tensor b = torch::ones({4}).requires_grad_();
  torch::optim::SGD sgd{{a, b}, torch::optim::SGDOptions(1.0).momentum(0.5)};
};

TEST_CASE_METHOD(NoneFixture, "gradients come to the buckets from autograd's own tensors",
                 "[optimizer]") {
  reset_fake_job();
  hvd::DistributedOptimizer optimizer(sgd);
  const void* const place = a.grad().data_ptr();
  optimizer.zero_grad(true);
  CHECK_FALSE(a.grad().defined());
  CHECK_FALSE(b.grad().defined());
  backward();
  CHECK(a.grad().data_ptr() == place);
  optimizer.step();
  CHECK(a.equal(torch::full({4}, 1 - 3 * 2.5)));
  // The part that backward has left out counts with zeros, whatever lay there before.
  CHECK(b.grad().equal(torch::zeros({4})));
  CHECK(b.equal(torch::ones({4})));
  optimizer.zero_grad(true);
  (b * 2).sum().backward();
  optimizer.step();
  CHECK(a.equal(torch::full({4}, 1 - 3 * 2.5 - 0.5 * 3 * 2.5)));  // its momentum
  CHECK(a.grad().equal(torch::zeros({4})));
  CHECK(b.equal(torch::full({4}, 1 - 2 * 2.5)));
}

TEST_CASE_METHOD(NoneFixture, "a second backward adds to what the first has made", "[optimizer]") {
  reset_fake_job();
  hvd::DistributedOptimizerOptions options;
  options.backward_passes_per_step = 2;
  hvd::DistributedOptimizer optimizer(sgd, options);
  optimizer.zero_grad(true);
  backward();
  backward();
  optimizer.step();
  CHECK(a.equal(torch::full({4}, 1 - 6 * 2.5)));
}

TEST_CASE_METHOD(NoneFixture, "local gradients and those of adasum go, too, or are zero in place",
                 "[optimizer]") {
  reset_fake_job();
  hvd::DistributedOptimizerOptions options;
  if (GENERATE(true, false))
    options.op = hvd::ReduceOp::adasum;
  else
    options.local = {a};
  hvd::DistributedOptimizer optimizer(sgd, options);
  backward();
  const void* const place = a.grad().data_ptr();
  optimizer.zero_grad();
  CHECK(a.grad().data_ptr() == place);
  CHECK(a.grad().equal(torch::zeros({4})));
  optimizer.zero_grad(true);
  CHECK_FALSE(a.grad().defined());
}

TEST_CASE_METHOD(NoneFixture, "alone gradients stay where autograd has put them", "[optimizer]") {
  reset_fake_job(1);
  hvd::DistributedOptimizer optimizer(sgd);
  const void* const place = a.grad().data_ptr();
  optimizer.zero_grad(true);
  backward();
  CHECK(a.grad().data_ptr() != place);
  optimizer.step();
  CHECK(fake_job().calls.empty());
  CHECK(a.equal(torch::full({4}, -2.0)));
  CHECK(b.grad().equal(torch::zeros({4})));
  optimizer.zero_grad();
  CHECK(a.grad().equal(torch::zeros({4})));
  backward();
  optimizer.step();
  CHECK(a.equal(torch::full({4}, -2 - 3 - 0.5 * 3)));
}

}  // namespace
}  // namespace hvdrun
