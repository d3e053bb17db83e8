#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::reset_fake_job;

TEST_CASE("allreduce gives a new tensor of the same shape and dtype", "[tensor]") {
  reset_fake_job();
  const auto type = GENERATE(torch::kFloat, torch::kDouble, torch::kInt, torch::kLong);
  const torch::Tensor tensor = torch::arange(6, type).view({2, 3}) * 2;
  const torch::Tensor copy = tensor.clone();
  CHECK(hvd::allreduce(tensor).equal(torch::arange(6, type).view({2, 3}) * 5));
  CHECK(hvd::allreduce(tensor, hvd::ReduceOp::sum).equal(torch::arange(6, type).view({2, 3}) * 20));
  CHECK(tensor.equal(copy));
}

TEST_CASE("tensors of any strides are reduced and broadcast", "[tensor]") {
  reset_fake_job();
  torch::Tensor base = torch::arange(24, torch::kFloat).view({4, 6});
  const torch::Tensor before = base.clone();
  torch::Tensor slice = base.t().slice(0, 1, 6, 2);
  REQUIRE_FALSE(slice.is_contiguous());
  const torch::Tensor expected = slice.clone() * 2.5;

  CHECK(hvd::allreduce(slice).equal(expected));
  CHECK(base.equal(before));

  SECTION("allreduce_") { hvd::allreduce_(slice); }
  SECTION("broadcast_") {
    hvd::broadcast_(slice, 1);
    slice.mul_(1.25);
  }
  CHECK(slice.equal(expected));
  base.t().slice(0, 1, 6, 2).copy_(before.t().slice(0, 1, 6, 2));
  CHECK(base.equal(before));  // nothing beside the slice has changed
}

TEST_CASE("autograd notices a tensor that was reduced in place", "[tensor]") {
  reset_fake_job();
  torch::Tensor weight = torch::ones({3}, torch::requires_grad());
  torch::Tensor hidden = weight * 2;
  const torch::Tensor loss = (hidden * hidden).sum();
  torch::Tensor same = hidden.detach();
  hvd::allreduce_(same);
  CHECK_THROWS_AS(loss.backward(), c10::Error);
  CHECK(hvd::allreduce(weight).grad_fn()->name() == "hvd.allreduce");
  CHECK_FALSE(hvd::synchronize(hvd::allreduce_async(weight)).requires_grad());
}

TEST_CASE("allgather concatenates along the first dimension", "[tensor]") {
  reset_fake_job(3);
  const torch::Tensor part = torch::arange(6, torch::kFloat).view({3, 2}).t();
  const torch::Tensor all = hvd::allgather(part);
  REQUIRE(all.sizes() == torch::IntArrayRef({6, 3}));
  for (int rank = 0; rank < 3; ++rank) CHECK(all.narrow(0, 2 * rank, 2).equal(part));
  CHECK(hvd::allgather(torch::empty({0, 5})).sizes() == torch::IntArrayRef({0, 5}));
}

TEST_CASE("a tensor that cannot take part is named", "[tensor]") {
  reset_fake_job();
  const auto reduce = [](const torch::Tensor& tensor) {
    return error_of([&] { hvd::allreduce(tensor); });
  };
  CHECK_THAT(reduce(torch::Tensor()), Contains("undefined"));
  CHECK_THAT(reduce(torch::ones({2}, torch::kComplexFloat)), Contains("dtype ComplexFloat"));
  CHECK_THAT(reduce(torch::ones({2}, torch::kMeta)), Contains("a tensor on meta"));
  CHECK_THAT(reduce(torch::eye(3).to_sparse()), Contains("sparse"));
  CHECK_THAT(error_of([] { hvd::allgather(torch::tensor(1.0F)); }), Contains("without dimensions"));
  torch::Tensor expanded = torch::ones({1, 3}).expand({4, 3});
  CHECK_THAT(error_of([&] { hvd::broadcast_(expanded); }), Contains("expanded"));
  CHECK(test::fake_job().calls.empty());
}

TEST_CASE("parameters and buffers of a module are broadcast", "[tensor]") {
  reset_fake_job();
  torch::nn::Sequential model(torch::nn::Linear(3, 2), torch::nn::BatchNorm1d(2));
  const torch::Tensor weight = model->parameters()[0].detach().clone();
  hvd::broadcast_parameters(*model, 2);
  CHECK(model->parameters()[0].equal(weight * 3));
  CHECK(model->named_buffers()["1.running_var"].equal(torch::full({2}, 3.0F)));
}

TEST_CASE("metric_average is the mean over the ranks", "[tensor]") {
  reset_fake_job();
  CHECK(hvd::metric_average(0.5) == 1.25);
}

}  // namespace
}  // namespace hvdrun
