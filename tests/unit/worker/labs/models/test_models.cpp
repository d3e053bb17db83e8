#include <algorithm>
#include <cmath>
#include <map>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/models/layer_walk.h"
#include "worker/labs/models/wide_resnet.h"
#include "worker/labs/report/describe.h"
#include "worker/labs/train/synthetic_batches.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using Shape = std::vector<std::int64_t>;

std::int64_t parameters_of(const torch::nn::Module& model) {
  std::int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) count += parameter.numel();
  return count;
}

// The shape of the layer's output; empty where no layer has the name.
Shape shape_of(const std::vector<Layer>& layers, const std::string& name) {
  for (const Layer& layer : layers) {
    if (layer.name == name) return layer.shape;
  }
  return {};
}

TEST_CASE("every model has the number of parameters of its original", "[models]") {
  const std::map<std::string, std::int64_t> expected = {
      {"mnist-cnn", 21'840},          {"mnist-linear", 7'850},     {"resnet50", 25'557'032},
      {"artists-resnet", 23'528'522}, {"alexnet-owt", 61'100'840}, {"wrn-16-10", 17'121'962},
      {"text-nnlm", 16'826'753},      {"svhn-cnn", 551'018},
  };
  CHECK(models().size() == expected.size());
  for (const ModelInfo& info : models()) {
    CAPTURE(info.name);
    REQUIRE(expected.count(info.name) == 1);
    CHECK(info.parameters == expected.at(info.name));
    const auto model = make_model(info.name);
    CHECK(parameters_of(*model) == expected.at(info.name));

    // The walk misses no layer that has parameters, and counts none twice.
    std::int64_t walked = 0;
    for (const Layer& layer : layers_of(*model, model->example(1))) {
      CHECK(layer.shape.size() >= 2);
      walked += layer.parameters;
    }
    CHECK(walked == expected.at(info.name));
  }
  CHECK(make_model("other") == nullptr);
}

TEST_CASE("models give log-probabilities of each class", "[models]") {
  const auto check = [](LabModel& model, const torch::Tensor& images, std::int64_t classes) {
    model.eval();
    const torch::NoGradGuard no_grad;
    const torch::Tensor output = model.forward(images);
    CHECK(output.sizes() == torch::IntArrayRef({images.size(0), classes}));
    CHECK(output.exp().sum(1).allclose(torch::ones({images.size(0)})));
  };
  check(*make_model("mnist-cnn"), torch::randn({2, 1, 28, 28}), 10);
  check(*make_model("mnist-linear"), torch::randn({2, 1, 28, 28}), 10);
  check(*make_model("svhn-cnn"), torch::randn({2, 3, 32, 32}), 10);
  check(*make_model("resnet50"), torch::randn({2, 3, 64, 64}), 1000);
  check(*make_model("alexnet-owt"), torch::randn({1, 3, 224, 224}), 1000);
  check(*make_wide_resnet(16, 1, 0.01), torch::randn({2, 1, 28, 28}), 10);
}

TEST_CASE("ResNet-50 strides in the 3x3 convolution and begins as He et al. say", "[models]") {
  torch::manual_seed(1);
  const auto model = make_model("resnet50");
  const auto layers = layers_of(*model, torch::zeros({1, 3, 64, 64}));
  CHECK(shape_of(layers, "conv1") == Shape{1, 64, 32, 32});
  CHECK(shape_of(layers, "layer2.0.conv1") == Shape{1, 128, 16, 16});
  CHECK(shape_of(layers, "layer2.0.conv2") == Shape{1, 128, 8, 8});
  CHECK(shape_of(layers, "layer2.0.downsample.0") == Shape{1, 512, 8, 8});
  CHECK(shape_of(layers, "layer4.2.conv3") == Shape{1, 2048, 2, 2});
  const auto weights = model->named_parameters();
  CHECK(weights.find("conv1.bias") == nullptr);
  const auto deviation = weights["layer3.1.conv2.weight"].std().item<double>();
  CHECK(deviation == Approx(std::sqrt(2.0 / (256 * 9))).epsilon(0.02));
}

TEST_CASE("a Wide ResNet takes any depth of 6 n + 4, any width and backward", "[models]") {
  // A group begins with a convolution of 1x1 only where the width changes: not in the first at 1.
  CHECK(parameters_of(*make_wide_resnet(16, 1, 0)) == 175'338);
  const auto deeper = make_wide_resnet(22, 2, 0);
  const auto layers = layers_of(*deeper, torch::zeros({1, 1, 28, 28}));
  CHECK(shape_of(layers, "group1.2.conv2") == Shape{1, 32, 28, 28});
  CHECK(shape_of(layers, "group3.2.conv2") == Shape{1, 128, 7, 7});
  CHECK(shape_of(layers, "group3.3.conv1").empty());
  CHECK_THROWS_WITH(make_wide_resnet(17, 1, 0), Contains("a depth of 6 n + 4, not 17"));

  const auto model = make_wide_resnet(10, 1, 0.01);
  torch::nll_loss(model->forward(torch::randn({2, 1, 28, 28})), torch::tensor({3, 7}, torch::kLong))
      .backward();
  for (const auto& parameter : model->named_parameters()) {
    CAPTURE(parameter.key());
    CHECK(parameter.value().grad().defined());
  }
}

TEST_CASE("the Wide ResNet's penalty is that of Keras' regulariser of kernels", "[models]") {
  const auto model = make_wide_resnet(10, 1, 0);
  double expected = 0;
  for (const auto& parameter : model->named_parameters()) {
    const bool kernel = parameter.value().dim() > 1;  // biases and normalisation have one dimension
    if (kernel) expected += parameter.value().to(torch::kDouble).square().sum().item<double>();
  }
  CHECK(model->penalty().item<double>() == Approx(5e-6 * expected).epsilon(1e-5));
  model->penalty().backward();
  const torch::Tensor weight = model->named_parameters()["group2.0.conv1.weight"];
  CHECK(weight.grad().allclose(1e-5 * weight));
  CHECK_FALSE(model->named_parameters()["fc.bias"].grad().defined());
  CHECK_FALSE(make_model("mnist-cnn")->penalty().defined());
}

TEST_CASE("a sentence is its words, whatever their order and the filling behind", "[models]") {
  const auto model = make_model("text-nnlm");
  const auto logits = [&](std::vector<std::int64_t> words) {
    const torch::Tensor batch = torch::tensor(words, torch::kLong).view({2, -1});
    return model->forward(batch).detach();
  };
  const torch::Tensor both = logits({5, 9, 7, 100'000});
  CHECK(both.sizes() == torch::IntArrayRef({2, 1}));
  CHECK(both.allclose(logits({9, 5, 0, 0, 100'000, 7, 0, 0})));
  CHECK_FALSE(both[0].allclose(both[1]));
  // The root of the number of words: a word said four times weighs twice, not four times or once.
  const torch::Tensor rows = model->named_parameters()["embedding.weight"].detach();
  const auto layers = layers_of(*model, torch::full({1, 4}, 5, torch::kLong));
  CHECK(layers.front().kind == "EmbeddingBag");
  const torch::Tensor once = logits({5, 6});
  const torch::Tensor four_times = logits({5, 5, 5, 5, 6, 6, 6, 6});
  rows.mul_(2);
  CHECK_FALSE(four_times.allclose(once));
  CHECK(four_times.allclose(logits({5, 6}), 1e-4, 1e-6));
}

TEST_CASE("class weights count in the loss, whose sum is divided by the samples", "[models]") {
  torch::manual_seed(1);
  const torch::Tensor weights = torch::tensor({0.25, 3.0, 1.5});
  const torch::Tensor labels = torch::tensor({2, 0, 1, 2}, torch::kLong);
  const torch::Tensor output = torch::log_softmax(torch::randn({4, 3}), 1);
  double expected = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const auto label = labels[i].item<std::int64_t>();
    expected -= weights[label].item<double>() * output[i][label].item<double>() / 4;
  }
  const auto model = make_model("mnist-linear");
  CHECK(model->loss(output, labels, weights).item<double>() == Approx(expected).epsilon(1e-5));
  CHECK(model->loss(output, labels).item<double>() != Approx(expected).epsilon(1e-2));

  // Yes and no have one logit.
  const torch::Tensor logits = torch::randn({4, 1});
  const torch::Tensor truth = torch::tensor({1, 0, 1, 0}, torch::kLong);
  expected = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const double yes = 1 / (1 + std::exp(-logits[i][0].item<double>()));
    expected -= i % 2 == 0 ? 3 * std::log(yes) / 4 : 0.25 * std::log(1 - yes) / 4;
  }
  const auto text = make_model("text-nnlm");
  CHECK(text->loss(logits, truth, torch::tensor({0.25, 3.0})).item<double>() ==
        Approx(expected).epsilon(1e-5));
}

TEST_CASE("synthetic images have the size that was asked for", "[models]") {
  const auto shape_with = [](const char* name, std::int64_t side) {
    const auto model = find_model(name)->make({0.5, 16, 1, 10});
    SyntheticBatches data(*model, 20, 5, side);
    data.begin(shard_pass(20, 5, 0, 1));
    const Batch batch = data.next().value();
    CHECK(batch.labels.size(0) == 5);
    return batch.inputs.sizes().vec();
  };
  CHECK(shape_with("resnet50", 96) == Shape{5, 3, 96, 96});
  CHECK(shape_with("resnet50", 0) == Shape{5, 3, 224, 224});
  CHECK(shape_with("mnist-cnn", 0) == Shape{5, 1, 28, 28});
}

TEST_CASE("a description has a line for each layer and the sum", "[models]") {
  const std::string text = describe_model(*find_model("mnist-cnn"), {}, {});
  CHECK_THAT(text, Contains("\nconv1  Conv2d        [1, 10, 24, 24]            260\n"));
  CHECK_THAT(text, Contains("\n-      MaxPool2d     [1, 10, 12, 12]              0\n"));
  CHECK_THAT(text, Contains("\nfc2    Linear        [1, 10]                    510\n"));
  CHECK_THAT(text, Contains("\ntotal ") && Contains(" 21840\n"));
  CHECK(std::count(text.begin(), text.end(), '\n') == 13);
}

TEST_CASE("the smallest photograph that a model takes is known", "[models]") {
  constexpr std::int64_t kSmallestOption = 32;
  for (const ModelInfo& info : models()) {
    if (!info.data.photographs) continue;
    CAPTURE(info.name, info.smallest_image);
    ModelShape shape = info.shape;
    shape.width = 2;
    const auto model = info.make(shape);
    model->eval();
    const torch::NoGradGuard no_grad;
    const std::int64_t side = std::max(info.smallest_image, kSmallestOption);
    CHECK(model->forward(torch::zeros({1, 3, side, side})).size(0) == 1);
    if (info.smallest_image > kSmallestOption)
      CHECK_THROWS(model->forward(torch::zeros({1, 3, side - 1, side - 1})));
  }
}

TEST_CASE("dropout 0 leaves nothing to chance", "[models]") {
  const auto same_twice = [](double dropout) {
    const auto model = make_model("mnist-cnn", dropout);
    model->train();
    const torch::Tensor images = torch::randn({4, 1, 28, 28});
    return model->forward(images).equal(model->forward(images));
  };
  CHECK(same_twice(0));
  CHECK_FALSE(same_twice(0.5));
}

}  // namespace
}  // namespace hvdrun
