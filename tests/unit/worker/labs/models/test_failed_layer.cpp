// The words on a model whose layers do not fit together, or are not what its line says.
#include <functional>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/models/batch_norm.h"
#include "worker/labs/models/failed_layer.h"
#include "worker/labs/models/layer_walk.h"
#include "worker/labs/models/parameter_count.h"
#include "worker/labs/report/describe.h"
#include "worker/labs/train/synthetic_batches.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

// Each member is a layer that some batch does not fit.
class Misfit final : public LabModel {
 public:
  explicit Misfit(std::string wrong) : wrong_(std::move(wrong)) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = torch::relu(conv_(images));
    if (wrong_ == "conv2") x = conv2_(x);
    if (wrong_ == "pool") x = torch::max_pool2d(x, 9);
    if (wrong_ == "norm") x = norm_(x);
    if (wrong_ == "view") x = x.view({3, 7});
    if (wrong_ == "cat") x = torch::cat({x, images});
    x = x.flatten(1);
    if (wrong_ == "fc") x = fc_(x);
    if (wrong_ == "inner") x = inner_->forward(x);
    return torch::log_softmax(last_(x), 1);
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 1, 6, 6}); }

 private:
  std::string wrong_;
  torch::nn::Conv2d conv_{register_module("conv", torch::nn::Conv2d(1, 4, 3))};
  torch::nn::Conv2d conv2_{register_module("conv2", torch::nn::Conv2d(5, 4, 3))};
  BatchNorm2d norm_{register_module("norm", BatchNorm2d(3))};
  torch::nn::Linear fc_{
      register_module("fc", torch::nn::Linear(torch::nn::LinearOptions(90, 7).bias(false)))};
  torch::nn::Sequential inner_{
      register_module("inner", torch::nn::Sequential(torch::nn::Linear(64, 9), torch::nn::ReLU(),
                                                     torch::nn::Linear(8, 64)))};
  torch::nn::Linear last_{register_module("last", torch::nn::Linear(64, 10))};
};

std::string words_about(const std::string& wrong, std::int64_t batch = 2) {
  Misfit model(wrong);
  try {
    layers_of(model, model.example(batch));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("a layer that does not fit is named with both sizes", "[describe]") {
  CHECK(words_about("nothing") == "no error");
  CHECK_THAT(words_about("fc"),
             StartsWith("layer fc, torch::nn::Linear(in_features=90, out_features=7, bias=false), "
                        "is given [2, 64]: ") &&
                 Contains("2x64 and 90x7"));
  CHECK_THAT(words_about("fc", 32), Contains("is given [32, 64]: "));
  CHECK_THAT(words_about("inner"),
             StartsWith("layer inner.2, torch::nn::Linear(in_features=8, out_features=64, "
                        "bias=true), is given [2, 9]: "));
  CHECK_THAT(words_about("conv2"), StartsWith("layer conv2, torch::nn::Conv2d(5, 4, ") &&
                                       Contains(", is given [2, 4, 4, 4]: "));
  CHECK_THAT(words_about("norm"),
             StartsWith("layer norm, ") && Contains(" is given [2, 4, 4, 4]: "));
}

TEST_CASE("what has no parameters is named with the layer before", "[describe]") {
  CHECK_THAT(words_about("pool"), StartsWith("max_pool2d behind layer conv, torch::nn::Conv2d(") &&
                                      Contains(", is given [2, 4, 4, 4]: "));
  CHECK_THAT(words_about("view"),
             StartsWith("view behind layer conv, ") && Contains(", is given [2, 4, 4, 4]: "));
  CHECK_THAT(words_about("cat"), StartsWith("cat behind layer conv, "));
  for (const char* wrong : {"fc", "inner", "conv2", "norm", "pool", "view", "cat"})
    CHECK_THAT(words_about(wrong), !Contains("\n"));
}

TEST_CASE("a last layer that has too few outputs is told with the classes of the data",
          "[describe]") {
  const Misfit model("nothing");
  const torch::Tensor labels = torch::tensor({1, 7});
  const torch::Tensor five = torch::log_softmax(torch::zeros({2, 5}), 1);
  CHECK_THROWS_WITH(checked_loss(model, five, labels, {}, 10),
                    StartsWith("the model gives [2, 5] for 2 samples of 10 classes: ") &&
                        Contains("Target 7 is out of bounds") && !Contains("\n"));
  CHECK(checked_loss(model, torch::zeros({2, 10}), labels, {}, 10).item<double>() == 0);
}

TEST_CASE("random numbers are made for a model whose layers fit", "[describe]") {
  Misfit model("inner");
  CHECK_THROWS_WITH(SyntheticBatches(model, 4, 2, 0),
                    StartsWith("layer inner.2, ") && Contains(" is given [1, 9]: "));
}

// The line of one, so that it can be told of without the list of models.
ModelInfo misfit(std::int64_t parameters, bool fits = true) {
  ModelInfo info = *find_model("mnist-cnn");
  info.name = "misfit";
  info.parameters = parameters;
  info.make = [](const ModelShape&) -> std::shared_ptr<LabModel> {
    return std::make_shared<Misfit>("nothing");
  };
  if (!fits)
    info.make = [](const ModelShape&) -> std::shared_ptr<LabModel> {
      return std::make_shared<Misfit>("fc");
    };
  return info;
}

TEST_CASE("a number of parameters that is not true is refused with the true one", "[describe]") {
  const std::int64_t right = 4 * 9 + 4 + 4 * 5 * 9 + 4 + 6 + 90 * 7 + 65 * 9 + 9 * 64 + 65 * 10;
  CHECK_THROWS_WITH(describe_model(misfit(right + 1), misfit(0).shape, {}),
                    "misfit: its ModelInfo says " + std::to_string(right + 1) +
                        " parameters, its layers have " + std::to_string(right) +
                        "; mend whichever is wrong");
  CHECK_THAT(describe_model(misfit(right), misfit(0).shape, {}), Contains("layer "));
  // A layer that does not fit is why the number is another.
  CHECK_THROWS_WITH(describe_model(misfit(right + 1, false), misfit(0).shape, {}),
                    StartsWith("layer fc, "));
  // Another dropout changes nothing, other layers have another number.
  ModelShape shape = misfit(0).shape;
  shape.dropout = 0.1;
  CHECK_THROWS(describe_model(misfit(0), shape, {}));
  shape.width = 2;
  CHECK_NOTHROW(describe_model(misfit(0), shape, {}));
  for (const ModelInfo& info : models())
    CHECK(wrong_count(info, info.shape, *info.make(info.shape)).empty());
}

}  // namespace
}  // namespace hvdrun
