#include <algorithm>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::fake_job;
using test::reset_fake_job;
using torch::optim::SGD;

torch::Tensor parameter(const std::vector<std::int64_t>& sizes) {
  return torch::ones(sizes).requires_grad_();
}

// The sum of each tensor times its factor, so the factor is the gradient.
torch::Tensor weighted(const std::vector<std::pair<torch::Tensor, float>>& terms) {
  torch::Tensor sum = torch::zeros({});
  for (const auto& [tensor, factor] : terms) sum = sum + (tensor * factor).sum();
  return sum;
}

// Each gradient in a bucket of its own, so that the calls show the order.
hvd::DistributedOptimizerOptions single_buckets() {
  hvd::DistributedOptimizerOptions options;
  options.bucket_bytes = 0;
  return options;
}

bool all_equal(const torch::Tensor& tensor, double value) {
  return tensor.equal(torch::full_like(tensor, value));
}

hvd::ErrorCode code_of(const std::function<void()>& f, const std::string& part) {
  try {
    f();
  } catch (const hvd::Error& error) {
    CHECK_THAT(error.what(), Contains(part));
    return error.code();
  }
  FAIL("no error");
  return {};
}

constexpr auto kInvalid = hvd::ErrorCode::invalid_argument;

TEST_CASE("gradients are averaged, then the step is taken", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({3, 5});
  torch::Tensor b = parameter({7});
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.op = GENERATE(hvd::ReduceOp::average, hvd::ReduceOp::sum);
  const double factor = options.op == hvd::ReduceOp::average ? 2.5 : 10;
  hvd::DistributedOptimizer optimizer(sgd, options);
  CHECK(&optimizer.optimizer() == &sgd);
  for (int step = 1; step <= 3; ++step) {
    optimizer.zero_grad();
    weighted({{a, 0.5F}, {b, -2.0F}}).backward();
    CHECK(fake_job().calls.size() == static_cast<std::size_t>(step));
    optimizer.step();
    CHECK(all_equal(a.grad(), 0.5 * factor));
    CHECK(all_equal(a, 1 - step * 0.5 * factor));
    CHECK(all_equal(b, 1 + step * 2 * factor));
  }
  for (const auto& call : fake_job().calls) {
    CHECK(call.op == options.op);
    CHECK(call.waited_for);
    CHECK(call.count == 16 + 16);
  }
}

TEST_CASE("a gradient lies in bucket memory with the parameter's strides", "[optimizer]") {
  reset_fake_job();
  torch::Tensor dense = torch::ones({2, 3, 4, 5}).contiguous(torch::MemoryFormat::ChannelsLast);
  dense.requires_grad_();
  torch::Tensor slice = torch::ones({4, 6}).slice(1, 0, 3).requires_grad_();
  SGD sgd({dense, slice}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  CHECK(dense.grad().strides() == dense.strides());
  CHECK(slice.grad().is_contiguous());
  CHECK_FALSE(dense.grad().is_view());
  const void* memory = dense.grad().data_ptr();
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 64 == 0);
  weighted({{dense, 2.0F}, {slice, 3.0F}}).backward();
  optimizer.step();
  CHECK(dense.grad().data_ptr() == memory);
  CHECK(all_equal(dense.grad(), 5));
  CHECK(all_equal(slice.grad(), 7.5));
}

TEST_CASE("buckets are launched during backward, the last layer first", "[optimizer]") {
  reset_fake_job();
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
  SGD sgd(model->parameters(), 0.1);
  hvd::DistributedOptimizer optimizer(sgd, single_buckets());
  std::size_t launched_before_first_layer = 0;
  auto first_weight = model->parameters()[0];
  first_weight.register_hook([&](const torch::Tensor& grad) {
    launched_before_first_layer = fake_job().calls.size();
    return grad;
  });
  model->forward(torch::ones({2, 4})).sum().backward();
  CHECK(launched_before_first_layer >= 2);
  CHECK(fake_job().calls.size() == 4);
  optimizer.step();
}

TEST_CASE("the order of launches does not depend on the order of gradients", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  torch::Tensor b = parameter({2});
  torch::Tensor c = parameter({2});
  SGD sgd({a, b, c}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd, single_buckets());
  weighted({{a, 1.0F}}).backward();
  CHECK(fake_job().calls.empty());
  weighted({{c, 3.0F}}).backward();
  CHECK(fake_job().calls.size() == 1);
  weighted({{b, 2.0F}}).backward();
  REQUIRE(fake_job().calls.size() == 3);
  CHECK(fake_job().calls[0].data == c.grad().data_ptr());
  CHECK(fake_job().calls[1].data == b.grad().data_ptr());
  CHECK(fake_job().calls[2].data == a.grad().data_ptr());
  optimizer.step();
  CHECK(all_equal(a.grad(), 2.5));
  CHECK(all_equal(c.grad(), 7.5));
}

TEST_CASE("a parameter that took no part counts with zeros", "[optimizer]") {
  reset_fake_job();
  torch::Tensor used = parameter({2});
  torch::Tensor unused = parameter({2});
  SGD sgd({used, unused}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd, single_buckets());
  weighted({{used, 1.0F}}).backward();
  CHECK(fake_job().calls.empty());  // the bucket of `unused` comes first
  optimizer.step();
  CHECK(fake_job().calls.size() == 2);
  CHECK(all_equal(unused, 1));
  CHECK(all_equal(used, -1.5));
}

TEST_CASE("a replaced or undefined gradient is bound again", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2, 3});
  torch::Tensor b = parameter({2});
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  const void* memory = a.grad().data_ptr();
  SECTION("reset before backward") {
    a.mutable_grad() = torch::Tensor();
    weighted({{a, 2.0F}, {b, 1.0F}}).backward();
  }
  SECTION("replaced before backward") {
    a.mutable_grad() = torch::ones({2, 3});
    weighted({{a, 1.0F}, {b, 1.0F}}).backward();
  }
  SECTION("replaced without a backward") {
    a.mutable_grad() = torch::full({2, 3}, 2.0F);
    b.mutable_grad() = torch::Tensor();
  }
  SECTION("replaced by autograd itself, for higher derivatives") {
    weighted({{a, 2.0F}, {b, 1.0F}}).backward({}, true, true);
  }
  SECTION("put back by zero_grad") {
    a.mutable_grad() = torch::full({2, 3}, 9.0F);
    b.mutable_grad() = torch::Tensor();
    optimizer.zero_grad();
    weighted({{a, 2.0F}, {b, 1.0F}}).backward();
  }
  optimizer.step();
  CHECK(a.grad().data_ptr() == memory);
  CHECK(all_equal(a.grad(), 5));
  CHECK(all_equal(a, -4));
}

TEST_CASE("a gradient replaced while it is being reduced is an error", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  SGD sgd({a}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  weighted({{a, 1.0F}}).backward();
  a.mutable_grad() = torch::zeros({2});
  CHECK(code_of([&] { optimizer.step(); }, "parameter 0") == kInvalid);
  CHECK(all_equal(a, 1));
  optimizer.zero_grad();
  weighted({{a, 1.0F}}).backward();
  optimizer.step();
  CHECK(all_equal(a, -1.5));
}

TEST_CASE("a second backward before step is refused and spoils nothing", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  torch::Tensor b = parameter({2});
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  weighted({{a, 1.0F}, {b, 1.0F}}).backward();
  const bool synchronized = GENERATE(false, true);
  if (synchronized) optimizer.synchronize();
  const auto again = [&] { weighted({{a, 100.0F}, {b, 100.0F}}).backward(); };
  CHECK(code_of(again, "once more than backward_passes_per_step (1) before step()") == kInvalid);
  SECTION("step uses the first gradients") {
    optimizer.step();
    CHECK(all_equal(a, -1.5));
    CHECK(fake_job().calls.size() == 1);
  }
  SECTION("zero_grad drops them") {
    optimizer.zero_grad();
    CHECK(fake_job().calls.back().waited_for);
    CHECK(all_equal(a.grad(), 0));
    weighted({{a, 2.0F}, {b, 1.0F}}).backward();
    optimizer.step();
    CHECK(all_equal(a, -4));
  }
}

TEST_CASE("gradients of several backward passes are reduced once", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({3});
  torch::Tensor b = parameter({2});
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizerOptions options = single_buckets();
  options.backward_passes_per_step = 2;
  options.average_aggregated_gradients = GENERATE(false, true);
  const double expected = options.average_aggregated_gradients ? 1.5 : 3;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int step = 1; step <= 2; ++step) {
    optimizer.zero_grad();
    weighted({{a, 1.0F}, {b, 1.0F}}).backward();
    CHECK(fake_job().calls.size() == static_cast<std::size_t>(2 * step - 2));
    weighted({{a, 2.0F}, {b, 2.0F}}).backward();
    CHECK(fake_job().calls.size() == static_cast<std::size_t>(2 * step));
    CHECK(code_of(
              [&] {
                weighted({{a, 1.0F}}).backward();
              },
              "once more than backward_passes_per_step (2)") == kInvalid);
    optimizer.step();
    CHECK(all_equal(a.grad(), expected * 2.5));
    CHECK(all_equal(b.grad(), expected * 2.5));
  }
  // The rest of a data set: one pass only.
  optimizer.zero_grad();
  weighted({{a, 1.0F}, {b, 1.0F}}).backward();
  optimizer.step();
  CHECK(all_equal(a.grad(), options.average_aggregated_gradients ? 1.25 : 2.5));
}

TEST_CASE("the division of an average may be split", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({3});
  SGD sgd({a}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.gradient_predivide_factor = 2;
  hvd::DistributedOptimizer optimizer(sgd, options);
  weighted({{a, 3.0F}}).backward();
  optimizer.step();
  CHECK(all_equal(a.grad(), 7.5));
  REQUIRE(fake_job().calls.size() == 1);
  CHECK(fake_job().calls[0].op == hvd::ReduceOp::sum);
  CHECK(fake_job().calls[0].scale.prescale == 0.5);
  CHECK(fake_job().calls[0].scale.postscale == 0.5);
}

TEST_CASE("compressed gradients travel in 16 bits", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({3});
  torch::Tensor half = torch::ones({2}, torch::kHalf).requires_grad_();
  SGD sgd({a, half}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.compression = hvd::Compression::bf16;
  hvd::DistributedOptimizer optimizer(sgd, options);
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    weighted({{a, 3.0F}}).backward();
    (half * 2).sum().backward();
    optimizer.step();
    CHECK(all_equal(a.grad(), 7.5));
    CHECK(all_equal(half.grad(), 5));
  }
  std::vector<hvd::DataType> types;
  for (const auto& call : fake_job().calls) types.push_back(call.type);
  CHECK(std::count(types.begin(), types.end(), hvd::DataType::bfloat16) == 2);
  CHECK(std::count(types.begin(), types.end(), hvd::DataType::float16) == 2);
}

TEST_CASE("options that do not go together are refused", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({3});
  SGD sgd({a}, 1.0);
  const auto made_with = [&](const std::function<void(hvd::DistributedOptimizerOptions&)>& change,
                             const std::string& part) {
    hvd::DistributedOptimizerOptions options;
    change(options);
    return code_of([&] { hvd::DistributedOptimizer optimizer(sgd, options); }, part);
  };
  CHECK(made_with([](auto& options) { options.backward_passes_per_step = 0; },
                  "backward_passes_per_step is 0") == kInvalid);
  CHECK(made_with([](auto& options) { options.gradient_predivide_factor = 0; },
                  "gradient_predivide_factor is 0") == kInvalid);
  CHECK(made_with(
            [](auto& options) {
              options.gradient_predivide_factor = 2;
              options.op = hvd::ReduceOp::sum;
            },
            "splits the division of an average") == kInvalid);
}

TEST_CASE("zero_grad in the middle launches what the other ranks wait for", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  torch::Tensor b = parameter({2});
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd, single_buckets());
  optimizer.zero_grad();
  CHECK(fake_job().calls.empty());
  weighted({{a, 1.0F}}).backward();
  optimizer.zero_grad();
  CHECK(fake_job().calls.size() == 2);
  CHECK(all_equal(a.grad(), 0));
}

TEST_CASE("gradients may be changed between synchronize and step", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  SGD sgd({a}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  weighted({{a, 1.0F}}).backward();
  optimizer.synchronize();
  optimizer.synchronize();
  CHECK(all_equal(a.grad(), 2.5));
  SECTION("in place") { a.mutable_grad().clamp_(-1, 1); }
  SECTION("by another tensor") { a.mutable_grad() = torch::ones({2}); }
  optimizer.step();
  CHECK(all_equal(a, 0));
  CHECK(fake_job().calls.size() == 1);
}

TEST_CASE("a sparse gradient is added to the dense one", "[optimizer]") {
  reset_fake_job();
  torch::nn::Embedding embedding(torch::nn::EmbeddingOptions(4, 2).sparse(true));
  SGD sgd(embedding->parameters(), 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  if (GENERATE(false, true)) embedding->weight.mutable_grad() = torch::Tensor();
  embedding(torch::tensor({1, 1})).sum().backward();
  optimizer.step();
  CHECK(all_equal(embedding->weight.grad()[1], 5));
  CHECK(all_equal(embedding->weight.grad()[2], 0));
}

TEST_CASE("after the optimizer is gone gradients and graphs live on", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  SGD sgd({a}, 1.0);
  auto optimizer = std::make_unique<hvd::DistributedOptimizer>(sgd);
  const torch::Tensor old_grad = a.grad();
  const torch::Tensor graph = weighted({{a, 3.0F}});  // holds the accumulator with its hooks
  SECTION("idle") {}
  SECTION("with a reduction under way") {
    weighted({{a, 1.0F}}).backward();
    optimizer.reset();
    CHECK(fake_job().calls.back().waited_for);
    CHECK(all_equal(a.grad(), 2.5));
  }
  const auto calls = fake_job().calls.size();
  optimizer.reset();
  CHECK(a.grad().data_ptr() != old_grad.data_ptr());
  a.mutable_grad().zero_();
  graph.backward();
  weighted({{a, 3.0F}}).backward();
  CHECK(all_equal(a.grad(), 6));
  CHECK(fake_job().calls.size() == calls);
  CHECK(old_grad.sum().item<float>() >= 0);  // still there
}

TEST_CASE("an error of one reduction waits for the others and stops the step", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  torch::Tensor b = parameter({2});
  SGD sgd({a, b}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd, single_buckets());
  fake_job().failing_call = 0;
  weighted({{a, 1.0F}, {b, 1.0F}}).backward();
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK(code_of([&] { optimizer.step(); }, "rank 2 is gone") == hvd::ErrorCode::peer_lost);
  }
  CHECK(fake_job().calls[1].waited_for);
  CHECK(all_equal(a, 1));
}

TEST_CASE("ranks with other parameters are named", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  SGD sgd({a}, 1.0);
  fake_job().peers = [](int rank, std::size_t index, std::int64_t mine) {
    return rank >= 2 && index == 0 ? std::int64_t{77} : mine;
  };
  const auto make = [&] { hvd::DistributedOptimizer optimizer(sgd); };
  const std::string both = "the options differ between rank 0 and rank 2, 3; rank 0 has ";
  SECTION("another shape") {
    fake_job().objects = [](int rank, const std::string& mine) {
      return rank < 2 ? mine : "parameter 0 of Float [77]\n" + mine.substr(mine.find('\n') + 1);
    };
    CHECK(code_of(make, both + "parameter 0 of Float [2], but rank 2 has parameter 0 of Float "
                               "[77]") == hvd::ErrorCode::mismatch);
  }
  SECTION("more of them") {
    fake_job().objects = [](int rank, const std::string& mine) {
      return rank < 2 ? mine : mine.substr(0, mine.find('\n') + 1);
    };
    CHECK(code_of(make, both + "op 1, bucket_bytes 4194304") == hvd::ErrorCode::mismatch);
    CHECK(code_of(make, ", but rank 2 has no more") == hvd::ErrorCode::mismatch);
  }
  weighted({{a, 3.0F}}).backward();
  CHECK(all_equal(a.grad(), 3));  // nothing of it is left
}

TEST_CASE("what is not part of training takes no part", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  torch::Tensor frozen = torch::ones({2});
  torch::Tensor empty = parameter({0, 3});
  torch::Tensor complex = torch::ones({2}, torch::kComplexFloat).requires_grad_();
  torch::Tensor precise = torch::ones({2}, torch::kDouble).requires_grad_();
  SGD sgd({a, frozen, empty, precise}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  (weighted({{a, 1.0F}, {empty, 1.0F}}) + precise.sum()).backward();
  optimizer.step();
  CHECK_FALSE(frozen.grad().defined());
  CHECK(all_equal(precise.grad(), 2.5));
  CHECK(fake_job().calls.size() == 2);  // one per dtype
  SGD bad({complex}, 1.0);
  const auto make = [&] { hvd::DistributedOptimizer another(bad); };
  CHECK(code_of(make, "dtype ComplexFloat") == kInvalid);
}

TEST_CASE("parameters that join later are an error", "[optimizer]") {
  reset_fake_job();
  torch::Tensor a = parameter({2});
  torch::Tensor late = parameter({2});
  SGD sgd({a}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  sgd.add_param_group(torch::optim::OptimizerParamGroup(std::vector<torch::Tensor>{late}));
  CHECK(code_of([&] { optimizer.step(); }, "new parameters") == kInvalid);
}

TEST_CASE("alone nothing is reduced and training is the same", "[optimizer]") {
  reset_fake_job(1);
  torch::Tensor a = parameter({2});
  SGD sgd({a}, 1.0);
  hvd::DistributedOptimizer optimizer(sgd);
  optimizer.zero_grad();
  weighted({{a, 0.5F}}).backward();
  optimizer.step();
  CHECK(all_equal(a, 0.5));
  CHECK(fake_job().calls.empty());
}

}  // namespace
}  // namespace hvdrun
