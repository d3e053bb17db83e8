// ResNet-50 (He et al., arXiv 1512.03385) in the form called v1.5: where a block halves the image
// it is the 3x3 convolution that strides, not the 1x1 before it. Names are torchvision's.
#include "worker/labs/models/batch_norm.h"
#include "worker/labs/models/resnet.h"

namespace hvdrun {
namespace {

// Batch normalisation follows each, which has a bias of its own.
torch::nn::Conv2d resnet_conv(std::int64_t in, std::int64_t out, std::int64_t kernel,
                              std::int64_t stride = 1) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(in, out, kernel).stride(stride).padding(kernel / 2).bias(false));
}

constexpr std::int64_t kExpansion = 4;

class Bottleneck final : public torch::nn::Module {
 public:
  Bottleneck(std::int64_t in, std::int64_t planes, std::int64_t stride)
      : conv1_(register_module("conv1", resnet_conv(in, planes, 1))),
        bn1_(register_module("bn1", BatchNorm2d(planes))),
        conv2_(register_module("conv2", resnet_conv(planes, planes, 3, stride))),
        bn2_(register_module("bn2", BatchNorm2d(planes))),
        conv3_(register_module("conv3", resnet_conv(planes, planes * kExpansion, 1))),
        bn3_(register_module("bn3", BatchNorm2d(planes * kExpansion))) {
    if (stride == 1 && in == planes * kExpansion) return;
    downsample_ = register_module(
        "downsample", torch::nn::Sequential(resnet_conv(in, planes * kExpansion, 1, stride),
                                            BatchNorm2d(planes * kExpansion)));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor x = torch::relu(bn1_(conv1_(input)));
    x = torch::relu(bn2_(conv2_(x)));
    x = bn3_(conv3_(x));
    return torch::relu(x + (downsample_.is_empty() ? input : downsample_->forward(input)));
  }

 private:
  torch::nn::Conv2d conv1_;
  BatchNorm2d bn1_;
  torch::nn::Conv2d conv2_;
  BatchNorm2d bn2_;
  torch::nn::Conv2d conv3_;
  BatchNorm2d bn3_;
  torch::nn::Sequential downsample_{nullptr};
};

torch::nn::Sequential resnet_stage(std::int64_t in, std::int64_t planes, int blocks,
                                   std::int64_t stride) {
  torch::nn::Sequential stage;
  stage->push_back(std::make_shared<Bottleneck>(in, planes, stride));
  for (int i = 1; i < blocks; ++i) {
    stage->push_back(std::make_shared<Bottleneck>(planes * kExpansion, planes, 1));
  }
  return stage;
}

class Resnet50 final : public LabModel {
 public:
  Resnet50(std::int64_t width, std::int64_t classes)
      : conv1_(register_module("conv1", resnet_conv(3, width, 7, 2))),
        bn1_(register_module("bn1", BatchNorm2d(width))),
        layer1_(register_module("layer1", resnet_stage(width, width, 3, 1))),
        layer2_(register_module("layer2", resnet_stage(4 * width, 2 * width, 4, 2))),
        layer3_(register_module("layer3", resnet_stage(8 * width, 4 * width, 6, 2))),
        layer4_(register_module("layer4", resnet_stage(16 * width, 8 * width, 3, 2))),
        fc_(register_module("fc", torch::nn::Linear(8 * width * kExpansion, classes))) {
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* conv = module->as<torch::nn::Conv2d>()) {
        torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
      }
    }
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = torch::relu(bn1_(conv1_(images)));
    x = torch::max_pool2d(x, 3, 2, 1);
    x = layer2_->forward(layer1_->forward(x));
    x = layer4_->forward(layer3_->forward(x));
    x = torch::adaptive_avg_pool2d(x, {1, 1}).flatten(1);
    return torch::log_softmax(fc_(x), 1);
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 3, 224, 224}); }

 private:
  torch::nn::Conv2d conv1_;
  BatchNorm2d bn1_;
  torch::nn::Sequential layer1_;
  torch::nn::Sequential layer2_;
  torch::nn::Sequential layer3_;
  torch::nn::Sequential layer4_;
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<LabModel> make_resnet50(std::int64_t width, std::int64_t classes) {
  return std::make_shared<Resnet50>(width, classes);
}

ModelInfo resnet50() {
  ModelInfo info{"resnet50",
                 "residual net of 50 layers, v1.5",
                 imagenet_records(),
                 "He et al., arXiv 1512.03385, as torchvision has it",
                 25'557'032,
                 [](const ModelShape& shape) -> std::shared_ptr<LabModel> {
                   return make_resnet50(shape.width, shape.classes);
                 }};
  info.shape.width = 64;
  info.shape.classes = 1000;
  info.recipe.epochs = 90;
  info.recipe.lr = 0.0125;  // 0.1 at 256 images a step
  info.recipe.momentum = 0.9;
  info.recipe.log_interval = 10;
  info.recipe.weight_decay = 5e-5;  // with the rates and drops, Horovod's ImageNet example
  info.recipe.warmup_epochs = 5;
  info.recipe.drops = {{30, 1e-1}, {60, 1e-2}, {80, 1e-3}};
  return info;
}

}  // namespace hvdrun
