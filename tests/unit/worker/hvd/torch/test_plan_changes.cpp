// Buckets follow what the program says and does: groups, and the order of the first backward.
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::fake_job;
using test::reset_fake_job;
using torch::optim::SGD;

torch::Tensor parameter(std::int64_t size) { return torch::ones({size}).requires_grad_(); }

// One backward for each factor of `order`, so that gradients become ready in that order.
void backward_in(const std::vector<torch::Tensor>& order) {
  for (const torch::Tensor& tensor : order) (tensor * 3).sum().backward();
}

std::vector<std::size_t> counts_of_calls(std::size_t from) {
  std::vector<std::size_t> counts;
  for (std::size_t i = from; i < fake_job().calls.size(); ++i)
    counts.push_back(fake_job().calls[i].count);
  return counts;
}

TEST_CASE("buckets follow the order of the first backward", "[optimizer]") {
  reset_fake_job();
  const torch::Tensor a = parameter(16);
  const torch::Tensor b = parameter(32);
  const torch::Tensor c = parameter(48);
  SGD sgd({a, b, c}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 0;
  hvd::DistributedOptimizer optimizer(sgd, options);
  const auto round = [&](const std::vector<torch::Tensor>& order) {
    optimizer.zero_grad();
    const std::size_t before = fake_job().calls.size();
    backward_in(order);
    optimizer.step();
    return counts_of_calls(before);
  };
  // Planned from the last to the first: nothing can go before c is there.
  CHECK(round({b, a, c}) == std::vector<std::size_t>{48, 32, 16});
  CHECK(round({b, a, c}) == std::vector<std::size_t>{32, 16, 48});
  // From then on for good, so that ranks agree.
  CHECK(round({c, b, a}) == std::vector<std::size_t>{32, 16, 48});
  CHECK(a.equal(torch::full({16}, 1 - 3 * 3 * 2.5)));
  CHECK(c.equal(torch::full({48}, 1 - 3 * 3 * 2.5)));
}

TEST_CASE("a gradient that is late on one rank is late for all", "[optimizer]") {
  reset_fake_job(2);
  const torch::Tensor a = parameter(16);
  const torch::Tensor b = parameter(32);
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 0;
  hvd::DistributedOptimizer optimizer(sgd, options);
  // The other rank has a first, and b after all others.
  fake_job().peers = [](int rank, std::size_t index, std::int64_t mine) {
    if (rank == 0 || index == 0) return mine;
    return std::int64_t{index == 1 ? 0 : 5};
  };
  backward_in({b, a});
  optimizer.step();
  optimizer.zero_grad();
  const std::size_t before = fake_job().calls.size();
  backward_in({b, a});
  optimizer.step();
  CHECK(counts_of_calls(before) == std::vector<std::size_t>{16, 32});
}

TEST_CASE("buckets wait with their new order for ranks that have joined", "[optimizer]") {
  reset_fake_job(2);
  const torch::Tensor a = parameter(16);
  const torch::Tensor b = parameter(32);
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 0;
  hvd::DistributedOptimizer optimizer(sgd, options);
  bool joined = true;
  fake_job().peers = [&](int rank, std::size_t, std::int64_t mine) {
    return rank == 1 && joined ? 0 : mine;
  };
  const auto round = [&] {
    const std::size_t before = fake_job().calls.size();
    optimizer.zero_grad();
    backward_in({a, b});
    optimizer.step();
    return counts_of_calls(before);
  };
  CHECK(round() == std::vector<std::size_t>{32, 16});
  CHECK(round() == std::vector<std::size_t>{32, 16});
  joined = false;
  CHECK(round() == std::vector<std::size_t>{32, 16});
  CHECK(round() == std::vector<std::size_t>{16, 32});
}

TEST_CASE("a group is one bucket of its own", "[optimizer]") {
  reset_fake_job();
  const torch::Tensor a = parameter(16);
  const torch::Tensor b = parameter(32);
  const torch::Tensor c = parameter(48);
  SGD sgd({a, b, c}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 0;
  SECTION("named by its parameters") {
    options.groups = {{a, c}};
    hvd::DistributedOptimizer optimizer(sgd, options);
    backward_in({c, b, a});
    optimizer.step();
    CHECK(counts_of_calls(0) == std::vector<std::size_t>{32, 64});
  }
  SECTION("so many of them") {
    options.num_groups = 2;
    hvd::DistributedOptimizer optimizer(sgd, options);
    backward_in({c, b, a});
    optimizer.step();
    CHECK(counts_of_calls(0) == std::vector<std::size_t>{48, 48});
  }
  SECTION("what makes no sense is refused") {
    const auto refused = [&] {
      return error_of([&] { hvd::DistributedOptimizer optimizer(sgd, options); });
    };
    options.groups = {{a}, {b, a}};
    CHECK_THAT(refused(), Contains("groups[1] has a parameter that groups[0] has, too"));
    options.groups = {{torch::ones({3})}};
    CHECK_THAT(refused(), Contains("groups[0] has a tensor that the optimizer does not train"));
    options.groups = {{a}};
    options.num_groups = 2;
    CHECK_THAT(refused(), Contains("num_groups and groups; one of them"));
    options.groups.clear();
    options.num_groups = -1;
    CHECK_THAT(refused(), Contains("num_groups is -1"));
  }
}

}  // namespace
}  // namespace hvdrun
