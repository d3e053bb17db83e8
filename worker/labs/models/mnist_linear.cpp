// Softmax regression: what the pixels alone can tell. The measure for every other model.
#include "worker/labs/models/model.h"

namespace hvdrun {
namespace {

class MnistLinear final : public ImageModel {
 public:
  MnistLinear() : fc_(register_module("fc", torch::nn::Linear(784, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    return torch::log_softmax(fc_(images.view({-1, 784})), 1);
  }

 private:
  torch::nn::Linear fc_;
};

}  // namespace

std::shared_ptr<ImageModel> make_mnist_linear(const ModelOptions&) {
  return std::make_shared<MnistLinear>();
}

}  // namespace hvdrun
