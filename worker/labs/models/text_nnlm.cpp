// Is a sentence one or the other? The sum of its words' vectors goes through two hidden layers. As
// in the embeddings called nnlm-en-dim128 a word has 128 numbers and the sum is divided by the root
// of the number of words; the vectors are learned with the rest, and which one is a word's its
// Vocabulary says: its own, or by a hash one that it may share.
#include "worker/labs/models/model.h"

namespace hvdrun {
namespace {

constexpr std::int64_t kNoWord = 0;  // fills sentences up to the length of the longest
constexpr std::int64_t kExampleWords = 16;

class TextNnlm final : public LabModel {
 public:
  explicit TextNnlm(std::int64_t words)
      : embedding_(register_module(
            "embedding", torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(words, 128)
                                                     .mode(torch::kSum)
                                                     .padding_idx(kNoWord)))),
        fc1_(register_module("fc1", torch::nn::Linear(128, 256))),
        fc2_(register_module("fc2", torch::nn::Linear(256, 64))),
        fc3_(register_module("fc3", torch::nn::Linear(64, 1))) {
    // As Keras begins.
    torch::nn::init::uniform_(embedding_->weight, -0.05, 0.05);
    for (const torch::nn::Linear& layer : {fc1_, fc2_, fc3_}) {
      torch::nn::init::xavier_uniform_(layer->weight);
      torch::nn::init::zeros_(layer->bias);
    }
  }

  torch::Tensor forward(const torch::Tensor& words) override {
    const torch::Tensor count = words.ne(kNoWord).sum(1, /*keepdim=*/true).clamp_min(1);
    torch::Tensor x = embedding_(words) / count.sqrt();
    x = torch::relu(fc2_(torch::relu(fc1_(x))));
    return fc3_(x);
  }

  torch::Tensor loss(const torch::Tensor& output, const torch::Tensor& labels,
                     const torch::Tensor& class_weights) const override {
    const torch::Tensor weights =
        class_weights.defined() ? class_weights.index_select(0, labels) : torch::Tensor();
    return torch::binary_cross_entropy_with_logits(output.squeeze(1), labels.to(output.dtype()),
                                                   weights);
  }

  bool set_word_vectors(const WordVectors& vectors) override {
    const torch::NoGradGuard no_grad;
    const auto count = static_cast<std::int64_t>(vectors.words.size());
    const torch::Tensor rows =
        torch::tensor(std::vector<std::int64_t>(vectors.words.begin(), vectors.words.end()));
    const torch::Tensor values =
        torch::tensor(vectors.values).view({count, static_cast<std::int64_t>(vectors.dimension)});
    embedding_->weight.index_copy_(0, rows, values);
    return true;
  }

  bool make_word_gradients_sparse() override {
    embedding_->options.sparse(true);
    return true;
  }

  std::vector<torch::Tensor> word_parameters() const override { return {embedding_->weight}; }

  torch::Tensor predict(const torch::Tensor& output) const override {
    return output.squeeze(1).gt(0).to(torch::kLong);
  }

  torch::Tensor example(std::int64_t n) const override {
    return torch::ones({n, kExampleWords}, torch::kLong);
  }

 private:
  torch::nn::EmbeddingBag embedding_;
  torch::nn::Linear fc1_;
  torch::nn::Linear fc2_;
  torch::nn::Linear fc3_;
};

}  // namespace

ModelInfo text_nnlm() {
  ModelInfo info{"text-nnlm",
                 "a bag of words, 128 numbers each, and layers of 256, 64 and 1",
                 labelled_text(),
                 "the design of TensorFlow Hub's nnlm-en-dim128",
                 16'826'753,
                 [](const ModelShape& shape) -> std::shared_ptr<LabModel> {
                   return std::make_shared<TextNnlm>(shape.words);
                 }};
  info.shape.words = kWordNumbers;
  info.recipe.optimizer = "adam";
  info.recipe.lr = 0.001;
  info.recipe.epochs = 20;
  info.recipe.batch_size = 512;
  info.recipe.stops_on_loss = true;
  return info;
}

}  // namespace hvdrun
