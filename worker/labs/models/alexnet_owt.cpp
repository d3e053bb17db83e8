// AlexNet as in "One weird trick for parallelizing convolutional neural networks" (Krizhevsky,
// arXiv 1404.5997): one tower instead of two, no response normalisation. Widths, names and dropout
// are torchvision's, whose initial weights are torch's own.
#include "worker/labs/models/model.h"
#include "worker/labs/models/sample_dropout.h"

namespace hvdrun {
namespace {

torch::nn::MaxPool2d alexnet_pool() {
  return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(3).stride(2));
}

torch::nn::Conv2d alexnet_conv(std::int64_t in, std::int64_t out, std::int64_t kernel) {
  return torch::nn::Conv2d(torch::nn::Conv2dOptions(in, out, kernel).padding(kernel / 2));
}

class AlexnetOwt final : public LabModel {
 public:
  // `width`: channels of the first layer, 64 in the paper; the others and the linear ones follow.
  AlexnetOwt(double dropout, std::int64_t width, std::int64_t classes)
      : features_(register_module(
            "features",
            torch::nn::Sequential(
                torch::nn::Conv2d(torch::nn::Conv2dOptions(3, width, 11).stride(4).padding(2)),
                torch::nn::ReLU(), alexnet_pool(), alexnet_conv(width, 3 * width, 5),
                torch::nn::ReLU(), alexnet_pool(), alexnet_conv(3 * width, 6 * width, 3),
                torch::nn::ReLU(), alexnet_conv(6 * width, 4 * width, 3), torch::nn::ReLU(),
                alexnet_conv(4 * width, 4 * width, 3), torch::nn::ReLU(), alexnet_pool()))),
        classifier_(register_module(
            "classifier",
            torch::nn::Sequential(SampleDropout(dropout),
                                  torch::nn::Linear(4 * width * 36, 64 * width), torch::nn::ReLU(),
                                  SampleDropout(dropout), torch::nn::Linear(64 * width, 64 * width),
                                  torch::nn::ReLU(), torch::nn::Linear(64 * width, classes)))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    // Only images of another size than 224x224 need it.
    const torch::Tensor x = torch::adaptive_avg_pool2d(features_->forward(images), {6, 6});
    return torch::log_softmax(classifier_->forward(x.flatten(1)), 1);
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 3, 224, 224}); }

 private:
  torch::nn::Sequential features_;
  torch::nn::Sequential classifier_;
};

}  // namespace

ModelInfo alexnet_owt() {
  ModelInfo info{"alexnet-owt",
                 "five convolutions and three linear layers",
                 imagenet_records(),
                 "Krizhevsky, arXiv 1404.5997, as torchvision has it",
                 61'100'840,
                 [](const ModelShape& shape) -> std::shared_ptr<LabModel> {
                   return std::make_shared<AlexnetOwt>(shape.dropout, shape.width, shape.classes);
                 }};
  info.shape.dropout = 0.5;
  info.shape.width = 64;
  info.shape.classes = 1000;
  info.smallest_image = 63;  // of a smaller one the poolings leave nothing
  info.recipe.epochs = 90;
  info.recipe.lr = 0.00125;  // 0.01 at 256 images a step
  info.recipe.momentum = 0.9;
  info.recipe.log_interval = 10;
  info.recipe.weight_decay = 5e-4;
  info.recipe.drops = {{30, 1e-1}, {60, 1e-2}};
  return info;
}

}  // namespace hvdrun
