// The net of the PyTorch and Horovod MNIST examples, layer by layer.
#include "worker/labs/models/model.h"
#include "worker/labs/models/sample_dropout.h"

namespace hvdrun {
namespace {

class MnistCnn final : public LabModel {
 public:
  explicit MnistCnn(double dropout)
      : conv1_(register_module("conv1", torch::nn::Conv2d(1, 10, 5))),
        conv2_(register_module("conv2", torch::nn::Conv2d(10, 20, 5))),
        conv2_drop_(register_module("conv2_drop",
                                    SampleDropout(dropout, SampleDropoutImpl::What::channels))),
        fc1_(register_module("fc1", torch::nn::Linear(320, 50))),
        fc1_drop_(register_module("fc1_drop", SampleDropout(dropout))),
        fc2_(register_module("fc2", torch::nn::Linear(50, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = torch::relu(torch::max_pool2d(conv1_(images), 2));
    x = torch::relu(torch::max_pool2d(conv2_drop_(conv2_(x)), 2));
    x = fc1_drop_(torch::relu(fc1_(x.flatten(1))));
    return torch::log_softmax(fc2_(x), 1);
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 1, 28, 28}); }

 private:
  torch::nn::Conv2d conv1_;
  torch::nn::Conv2d conv2_;
  SampleDropout conv2_drop_;
  torch::nn::Linear fc1_;
  SampleDropout fc1_drop_;
  torch::nn::Linear fc2_;
};

}  // namespace

ModelInfo mnist_cnn() {
  ModelInfo info{"mnist-cnn",
                 "two convolutions and two linear layers for digits",
                 mnist_files(),
                 "the MNIST examples of PyTorch and Horovod",
                 21'840,
                 [](const ModelShape& shape) -> std::shared_ptr<LabModel> {
                   return std::make_shared<MnistCnn>(shape.dropout);
                 },
                 {/*dropout=*/0.5}};
  info.recipe.epochs = 10;
  info.recipe.batch_size = 64;
  info.recipe.test_batch_size = 1000;
  info.recipe.lr = 0.01;
  info.recipe.momentum = 0.5;
  info.recipe.seed = 42;
  info.recipe.log_interval = 10;
  return info;
}

}  // namespace hvdrun
