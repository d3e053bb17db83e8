// The first weights of each lab model, as docs/models.md says of its source.
#include <cmath>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/models/model.h"

namespace hvdrun {
namespace {

constexpr std::int64_t kMany = 1000;  // numbers that show what they are drawn from

std::shared_ptr<LabModel> small_model(const char* name) {
  torch::manual_seed(1);
  const ModelInfo& info = *find_model(name);
  ModelShape shape = info.shape;
  if (shape.classes > 0) shape.classes = 10;
  if (shape.width > 0) shape.width = shape.depth > 0 ? 2 : 16;
  if (shape.depth > 0) shape.depth = 10;
  return info.make(shape);
}

std::int64_t fan_in(const torch::Tensor& weight) { return weight[0].numel(); }
std::int64_t fan_out(const torch::Tensor& weight) { return weight.numel() / weight.size(1); }

// Drawn with that deviation around 0; six of the estimates' own deviations are left to chance.
void check_deviation(const torch::Tensor& tensor, double deviation) {
  if (tensor.numel() < kMany) return;
  const torch::Tensor values = tensor.detach().to(torch::kDouble);
  const double chance = 6 / std::sqrt(static_cast<double>(tensor.numel()));
  CHECK(std::abs(values.mean().item<double>()) < chance * deviation);
  CHECK(values.std().item<double>() == Approx(deviation).epsilon(chance));
}

void check_uniform(const torch::Tensor& tensor, double bound) {
  const auto largest = tensor.detach().abs().max().item<double>();
  CHECK(largest <= bound * (1 + 1e-6));
  if (tensor.numel() >= kMany) CHECK(largest > 0.98 * bound);
  check_deviation(tensor, bound / std::sqrt(3.0));
}

void check_normal(const torch::Tensor& tensor, double deviation) {
  check_deviation(tensor, deviation);
  // A uniform distribution has none beyond the root of 3.
  if (tensor.numel() >= kMany) CHECK(tensor.detach().abs().max().item<double>() > 2.5 * deviation);
}

void check_zero(const torch::Tensor& tensor) {
  CHECK(tensor.detach().abs().max().item<float>() == 0);
}

// torch's own of a convolution or a linear layer.
void check_default(const torch::Tensor& weight, const torch::Tensor& bias) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in(weight)));
  check_uniform(weight, bound);
  check_uniform(bias, bound);
}

void check_glorot(const torch::Tensor& weight, const torch::Tensor& bias) {
  check_uniform(weight, std::sqrt(6 / static_cast<double>(fan_in(weight) + fan_out(weight))));
  check_zero(bias);
}

// Each layer that has a weight, by what it is; gives how many there are.
template <typename Conv, typename Linear>
std::size_t for_each_layer(const LabModel& model, const Conv& conv, const Linear& linear) {
  std::size_t count = 0;
  for (const auto& module : model.named_modules("", /*include_self=*/false)) {
    CAPTURE(module.key());
    if (const auto* layer = module.value()->as<torch::nn::Conv2d>()) {
      conv(layer->weight, layer->bias);
      ++count;
    }
    if (const auto* layer = module.value()->as<torch::nn::Linear>()) {
      linear(layer->weight, layer->bias);
      ++count;
    }
    if (const auto* layer = module.value()->as<BatchNorm2dImpl>()) {
      CHECK(layer->weight.equal(torch::ones_like(layer->weight)));
      check_zero(layer->bias);
      check_zero(layer->running_mean);
      CHECK(layer->running_var.equal(torch::ones_like(layer->running_var)));
    }
  }
  return count;
}

TEST_CASE("weights of the nets for digits, house numbers and AlexNet begin as torch's own",
          "[weights]") {
  const std::vector<std::pair<const char*, std::size_t>> layers = {
      {"mnist-cnn", 4}, {"mnist-linear", 1}, {"svhn-cnn", 8}, {"alexnet-owt", 8}};
  for (const auto& [name, count] : layers) {
    CAPTURE(name);
    CHECK(for_each_layer(*small_model(name), check_default, check_default) == count);
  }
}

TEST_CASE("a ResNet's convolutions begin with Kaiming's normal distribution by fan-out",
          "[weights]") {
  const auto kaiming = [](const torch::Tensor& weight, const torch::Tensor& bias) {
    CHECK_FALSE(bias.defined());
    check_normal(weight, std::sqrt(2 / static_cast<double>(fan_out(weight))));
  };
  for (const char* name : {"resnet50", "artists-resnet"}) {
    CAPTURE(name);
    CHECK(for_each_layer(*small_model(name), kaiming, check_default) == 54);
  }
}

TEST_CASE("the Wide ResNet begins with Glorot's uniform distribution and biases of 0",
          "[weights]") {
  // A first convolution, three groups of one block of two, each with one of 1x1 beside it, and fc.
  CHECK(for_each_layer(*small_model("wrn-16-10"), check_glorot, check_glorot) == 11);
}

TEST_CASE("vectors of words begin between -0.05 and 0.05, the layers behind as in Keras",
          "[weights]") {
  const auto model = small_model("text-nnlm");
  CHECK(for_each_layer(*model, check_glorot, check_glorot) == 3);
  const torch::Tensor words = model->named_parameters()["embedding.weight"];
  CHECK(words.sizes() == torch::IntArrayRef({kWordNumbers, 128}));
  check_uniform(words, 0.05);
}

TEST_CASE("every model's weights follow from the seed", "[weights]") {
  for (const ModelInfo& info : models()) {
    CAPTURE(info.name);
    const auto first = small_model(info.name)->parameters();
    const auto same = small_model(info.name)->parameters();
    for (std::size_t i = 0; i < first.size(); ++i) CHECK(first[i].equal(same[i]));
  }
}

}  // namespace
}  // namespace hvdrun
