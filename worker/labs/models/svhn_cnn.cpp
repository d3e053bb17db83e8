// The house-number net: pairs of 3x3 convolutions of 32, 64 and 128 channels with normalisation,
// each pair followed by pooling and dropout, then two linear layers.
#include "worker/labs/models/batch_norm.h"
#include "worker/labs/models/model.h"
#include "worker/labs/models/sample_dropout.h"

namespace hvdrun {
namespace {

// A pair of convolutions that halves the images.
torch::nn::Sequential svhn_pair(std::int64_t in, std::int64_t out, double dropout) {
  const auto conv = [](std::int64_t from, std::int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).padding(1));
  };
  return torch::nn::Sequential(conv(in, out), BatchNorm2d(out), torch::nn::ReLU(), conv(out, out),
                               torch::nn::ReLU(), torch::nn::MaxPool2d(2), SampleDropout(dropout));
}

class SvhnCnn final : public LabModel {
 public:
  explicit SvhnCnn(double dropout)
      : pair1_(register_module("pair1", svhn_pair(3, 32, dropout))),
        pair2_(register_module("pair2", svhn_pair(32, 64, dropout))),
        pair3_(register_module("pair3", svhn_pair(64, 128, dropout))),
        fc1_(register_module("fc1", torch::nn::Linear(128 * 4 * 4, 128))),
        fc1_drop_(register_module("fc1_drop", SampleDropout(dropout))),
        fc2_(register_module("fc2", torch::nn::Linear(128, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = pair3_->forward(pair2_->forward(pair1_->forward(images)));
    x = fc1_drop_(torch::relu(fc1_(x.flatten(1))));
    return torch::log_softmax(fc2_(x), 1);
  }

  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 3, 32, 32}); }

 private:
  torch::nn::Sequential pair1_;
  torch::nn::Sequential pair2_;
  torch::nn::Sequential pair3_;
  torch::nn::Linear fc1_;
  SampleDropout fc1_drop_;
  torch::nn::Linear fc2_;
};

}  // namespace

ModelInfo svhn_cnn() {
  ModelInfo info{"svhn-cnn",
                 "three pairs of convolutions and two linear layers for house numbers",
                 svhn_files(),
                 "the usual design for SVHN, arXiv 1409.1556 in small",
                 551'018,
                 [](const ModelShape& shape) -> std::shared_ptr<LabModel> {
                   return std::make_shared<SvhnCnn>(shape.dropout);
                 }};
  info.shape.dropout = 0.3;
  info.recipe.epochs = 10;
  info.recipe.lr = 0.05;
  return info;
}

}  // namespace hvdrun
