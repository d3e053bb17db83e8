// The Wide ResNet (Zagoruyko and Komodakis, arXiv 1605.07146) of Horovod's Fashion-MNIST tutorial,
// which takes it from keras-contrib. That one is not the paper's net: convolutions have biases,
// normalisation and ReLU come after them, the sum gets neither, and pooling halves the images
// instead of strides. The tutorial sets the momentum of the running statistics to 0.9 and their
// epsilon to 1e-5; what Keras calls 0.9 is 0.1 in torch, so both are torch's own.
#include "worker/labs/models/wide_resnet.h"

#include "worker/labs/models/batch_norm.h"
#include "worker/labs/models/model.h"
#include "worker/labs/models/sample_dropout.h"

namespace hvdrun {
namespace {

constexpr double kDecay = 5e-6;

torch::nn::Conv2d wide_conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).padding(kernel / 2));
}

class WideBlock final : public torch::nn::Module {
 public:
  WideBlock(std::int64_t in, std::int64_t out, double dropout)
      : conv1_(register_module("conv1", wide_conv(in, out, 3))),
        bn1_(register_module("bn1", BatchNorm2d(out))),
        drop_(register_module("drop", SampleDropout(dropout))),
        conv2_(register_module("conv2", wide_conv(out, out, 3))),
        bn2_(register_module("bn2", BatchNorm2d(out))) {
    if (in != out) shortcut_ = register_module("shortcut", wide_conv(in, out, 1));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = drop_(torch::relu(bn1_(conv1_(input))));
    x = torch::relu(bn2_(conv2_(x)));
    return x + (shortcut_.is_empty() ? input : shortcut_(input));
  }

 private:
  torch::nn::Conv2d conv1_;
  BatchNorm2d bn1_;
  SampleDropout drop_;
  torch::nn::Conv2d conv2_;
  BatchNorm2d bn2_;
  torch::nn::Conv2d shortcut_{nullptr};
};

torch::nn::Sequential wide_group(std::int64_t in, std::int64_t out, std::int64_t blocks,
                                 double dropout) {
  torch::nn::Sequential group;
  group->push_back(std::make_shared<WideBlock>(in, out, dropout));
  for (std::int64_t i = 1; i < blocks; ++i) {
    group->push_back(std::make_shared<WideBlock>(out, out, dropout));
  }
  return group;
}

std::int64_t blocks_of_depth(std::int64_t depth) {
  TORCH_CHECK(depth >= 10 && depth % 6 == 4, "a Wide ResNet has a depth of 6 n + 4, not ", depth);
  return (depth - 4) / 6;
}

class WideResnet final : public LabModel {
 public:
  WideResnet(std::int64_t depth, std::int64_t width, double dropout)
      : conv_(register_module("conv", wide_conv(1, 16, 3))),
        bn_(register_module("bn", BatchNorm2d(16))),
        group1_(
            register_module("group1", wide_group(16, 16 * width, blocks_of_depth(depth), dropout))),
        group2_(register_module(
            "group2", wide_group(16 * width, 32 * width, blocks_of_depth(depth), dropout))),
        group3_(register_module(
            "group3", wide_group(32 * width, 64 * width, blocks_of_depth(depth), dropout))),
        fc_(register_module("fc", torch::nn::Linear(64 * width, 10))) {
    // As Keras begins unless told otherwise: Glorot's uniform distribution, and biases of 0.
    for (const auto& layer : modules(/*include_self=*/false)) {
      if (auto* conv = layer->as<torch::nn::Conv2d>()) {
        torch::nn::init::xavier_uniform_(conv->weight);
        torch::nn::init::zeros_(conv->bias);
      }
    }
    torch::nn::init::xavier_uniform_(fc_->weight);
    torch::nn::init::zeros_(fc_->bias);
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = group1_->forward(torch::relu(bn_(conv_(images))));
    x = group2_->forward(torch::max_pool2d(x, 2));
    x = group3_->forward(torch::max_pool2d(x, 2));
    x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    return torch::log_softmax(fc_(x), 1);
  }

  // Keras' l2 regulariser of every kernel: not of biases, nor of what normalisation learns.
  torch::Tensor penalty() const override {
    torch::Tensor squares = fc_->weight.square().sum();
    for (const auto& layer : modules(/*include_self=*/false)) {
      if (const auto* conv = layer->as<torch::nn::Conv2d>())
        squares = squares + conv->weight.square().sum();
    }
    return kDecay * squares;
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 1, 28, 28}); }

 private:
  torch::nn::Conv2d conv_;
  BatchNorm2d bn_;
  torch::nn::Sequential group1_;
  torch::nn::Sequential group2_;
  torch::nn::Sequential group3_;
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<LabModel> make_wide_resnet(std::int64_t depth, std::int64_t width, double dropout) {
  return std::make_shared<WideResnet>(depth, width, dropout);
}

ModelInfo wide_resnet() {
  ModelInfo info{"wrn-16-10",
                 "Wide ResNet, of depth 16 and width 10 unless told otherwise",
                 fashion_mnist_files(),
                 "Horovod's Fashion-MNIST tutorial; arXiv 1605.07146",
                 17'121'962,
                 [](const ModelShape& shape) {
                   return make_wide_resnet(shape.depth, shape.width, shape.dropout);
                 }};
  info.shape = {0.01, 16, 10};
  info.recipe.epochs = 40;
  info.recipe.momentum = 0.9;
  info.recipe.warmup_epochs = 5;
  info.recipe.drops = {{15, 0.1}, {25, 0.01}, {35, 0.001}};
  info.recipe.target_accuracy = 0.85;
  info.recipe.validation_passes = 3;
  info.refuse = [](const ModelShape& shape) -> std::string {
    if (shape.depth >= 10 && shape.depth % 6 == 4) return "";
    return "--depth takes 10, 16, 22 and so on in steps of 6, not " + std::to_string(shape.depth);
  };
  return info;
}

}  // namespace hvdrun
