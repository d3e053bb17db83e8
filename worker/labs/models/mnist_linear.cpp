// Softmax regression: what the pixels alone can tell. The measure for every other model.
#include "worker/labs/models/model.h"

namespace hvdrun {
namespace {

class MnistLinear final : public LabModel {
 public:
  MnistLinear() : fc_(register_module("fc", torch::nn::Linear(784, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    return torch::log_softmax(fc_(images.flatten(1)), 1);
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 1, 28, 28}); }

 private:
  torch::nn::Linear fc_;
};

}  // namespace

ModelInfo mnist_linear() {
  return {"mnist-linear",
          "softmax regression, the measure for every other model",
          mnist_files(),
          "a linear layer alone",
          7'850,
          [](const ModelShape&) -> std::shared_ptr<LabModel> {
            return std::make_shared<MnistLinear>();
          }};
}

}  // namespace hvdrun
