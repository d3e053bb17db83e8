// Single parameters, as DistributedOptimizer is told of them: names, and which of them stay local.
#include <string>
#include <vector>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using test::fake_job;
using test::reset_fake_job;
using torch::optim::SGD;

std::string words_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const hvd::Error& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("operations and errors have the names of parameters", "[parameters]") {
  reset_fake_job();
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
  SGD sgd(model->parameters(), 0.1);
  hvd::DistributedOptimizerOptions options;
  options.named_parameters = model->named_parameters();
  hvd::DistributedOptimizer optimizer(sgd, options);
  const auto backward = [&] { model->forward(torch::ones({2, 4})).sum().backward(); };
  backward();
  REQUIRE(fake_job().calls.size() == 1);
  const std::string name = fake_job().calls[0].name;
  CHECK(name.substr(name.find(".bucket.")) == ".bucket.0 (1.bias, 1.weight, 0.bias and 1 more)");
  CHECK_THAT(words_of(backward), Catch::Contains("backward() reached 1."));
}

TEST_CASE("without names parameters have their places", "[parameters]") {
  reset_fake_job();
  torch::nn::Linear layer(2, 2);
  SGD sgd(layer->parameters(), 0.1);
  hvd::DistributedOptimizer optimizer(sgd);
  layer->forward(torch::ones({1, 2})).sum().backward();
  const std::string name = fake_job().calls.at(0).name;
  CHECK(name.substr(name.find(" (")) == " (parameter 1, parameter 0)");
}

TEST_CASE("names must be those of all parameters", "[parameters]") {
  reset_fake_job();
  torch::nn::Sequential model(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
  SGD sgd(model->parameters(), 0.1);
  hvd::DistributedOptimizerOptions options;
  options.named_parameters = model->children()[0]->named_parameters();
  CHECK(words_of([&] { hvd::DistributedOptimizer(sgd, options); }) ==
        "DistributedOptimizer: named_parameters has no name for parameter 2 of the optimizer, "
        "Float of 16 elements; pass module->named_parameters() of all modules that it trains");
}

TEST_CASE("local gradients stay this rank's, of the scale of the others", "[parameters]") {
  reset_fake_job();
  torch::Tensor shared = torch::ones({3}).requires_grad_();
  torch::Tensor own = torch::ones({2}).requires_grad_();
  SGD sgd({shared, own}, 1.0);
  hvd::DistributedOptimizerOptions options;
  options.local = {own};
  options.scale_local_gradients = GENERATE(true, false);
  options.backward_passes_per_step = 2;
  options.average_aggregated_gradients = true;
  hvd::DistributedOptimizer optimizer(sgd, options);
  const double scale = options.scale_local_gradients ? fake_job().size : 1;
  for (int step = 1; step <= 2; ++step) {
    optimizer.zero_grad();
    for (int pass = 0; pass < 2; ++pass) (shared.sum() * 2 + own.sum() * 8).backward();
    optimizer.synchronize();
    CHECK(own.grad().equal(torch::full({2}, 8 / scale)));
    CHECK(shared.grad().equal(torch::full({3}, 5.0)));
    optimizer.step();  // does not divide once more
    CHECK(own.equal(torch::full({2}, 1 - step * 8 / scale)));
  }
  for (const auto& call : fake_job().calls) CHECK(call.count < 20);  // padded to 16
}

TEST_CASE("local parameters that do not go together with something", "[parameters]") {
  reset_fake_job();
  torch::Tensor shared = torch::ones({3}).requires_grad_();
  torch::Tensor own = torch::ones({2}).requires_grad_();
  SGD sgd({shared, own}, 1.0);
  hvd::DistributedOptimizerOptions options;
  const auto make = [&] { hvd::DistributedOptimizer optimizer(sgd, options); };
  options.local = {torch::ones({2})};
  CHECK(words_of(make) ==
        "DistributedOptimizer: local has a tensor that the optimizer does not train");
  options.local = {own};
  options.op = hvd::ReduceOp::adasum;
  CHECK(words_of(make) == "DistributedOptimizer: local is of gradients, and op is adasum");
  options.op = hvd::ReduceOp::average;
  options.sparse = {own};
  CHECK(words_of(make) == "DistributedOptimizer: a parameter is in local and in sparse");
}

}  // namespace
}  // namespace hvdrun
