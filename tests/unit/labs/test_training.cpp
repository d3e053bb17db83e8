#include "tests/unit/torch/catch_with_torch.h"
#include "worker/data/split_mix.h"
#include "worker/data/synthetic_digits.h"
#include "worker/labs/checked_file.h"
#include "worker/labs/checkpoint.h"
#include "worker/labs/trainer.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using torch::optim::SGD;
using torch::optim::SGDOptions;

TEST_CASE("batches are normalised images with their labels", "[data]") {
  LabelledImages data;
  data.images = {2, 1, 2, {0, 255, 128, 0}};
  data.labels = {7, 3};
  const ImageBatches batches(data, 0.5, 0.25);
  const std::uint32_t order[] = {1, 0};
  const Batch batch = batches.gather(order, 2);
  CHECK(batch.images.sizes() == torch::IntArrayRef({2, 1, 1, 2}));
  CHECK(batch.images.flatten().allclose(
      torch::tensor({(128.0F / 255 - 0.5F) / 0.25F, -2.0F, -2.0F, 2.0F}), 1e-5, 1e-5));
  CHECK(batch.labels.equal(torch::tensor({3, 7}, torch::kLong)));
  CHECK(batches.range(1, 2).labels.equal(torch::tensor({3}, torch::kLong)));
  data.labels[0] = 6;
  CHECK(ImageBatches(data).checksum() != batches.checksum());
}

// The way of `train`, in small: one rank, dropout streams by epoch.
Score train(const std::shared_ptr<LabModel>& model, SGD& sgd, const ImageBatches& data,
            std::uint64_t first_epoch, std::uint64_t last_epoch) {
  Trainer trainer(model, sgd);
  Score score;
  for (std::uint64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    torch::manual_seed(SplitMix(1, epoch).next());
    score = trainer.train_epoch(data, EpochSampler(data.size(), 1, epoch), 32, 1'000'000, nullptr);
  }
  return score;
}

TEST_CASE("the net beats a linear model on the synthetic digits by far", "[learning]") {
  hvd::init();
  const ImageBatches digits(synthetic_digits(Split::train, 8000, 1));
  const ImageBatches unseen(synthetic_digits(Split::test, 1000, 1));
  const auto accuracy = [&](const std::string& name, const SGDOptions& options) {
    torch::manual_seed(1);
    const auto model = make_model(name, 0.25);
    SGD sgd(model->parameters(), options);
    train(model, sgd, digits, 0, 2);
    const Score score = Trainer(model, sgd).evaluate(unseen);
    CHECK(score.images == 1000);
    return score.accuracy;
  };
  const double linear = accuracy("mnist-linear", SGDOptions(0.01).momentum(0.5));
  const double net = accuracy("mnist-cnn", SGDOptions(0.03).momentum(0.5));
  std::printf("linear %.1f %%, net %.1f %%\n", 100 * linear, 100 * net);
  CHECK(linear > 0.75);
  CHECK(linear < 0.90);
  CHECK(net > 0.96);
  CHECK(net - linear > 0.08);
  hvd::shutdown();
}

TEST_CASE("a run that goes on from a checkpoint is the run that was not broken", "[checkpoint]") {
  hvd::init();
  const ImageBatches digits(synthetic_digits(Split::train, 400, 1));
  const SGDOptions options = SGDOptions(0.05).momentum(0.9);
  torch::manual_seed(1);
  const auto model = make_model("mnist-cnn");
  SGD sgd(model->parameters(), options);
  train(model, sgd, digits, 0, 0);
  const std::string bytes = encode_checkpoint("mnist-cnn", *model, sgd, {1, 12, 99});
  const Score unbroken = train(model, sgd, digits, 1, 1);

  const auto other = make_model("mnist-cnn");
  SGD other_sgd(other->parameters(), options);
  Progress progress;
  std::string error;
  REQUIRE(decode_checkpoint(bytes, "mnist-cnn", *other, other_sgd, progress, error));
  CHECK(progress.epochs == 1);
  CHECK(progress.steps == 12);
  CHECK(progress.seed == 99);
  const Score resumed = train(other, other_sgd, digits, 1, 1);
  CHECK(resumed.loss == unbroken.loss);
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    CHECK(other->parameters()[i].equal(model->parameters()[i]));
  }
  hvd::shutdown();
}

TEST_CASE("a checkpoint that cannot be used is one line", "[checkpoint]") {
  const auto model = make_model("mnist-linear");
  SGD sgd(model->parameters(), SGDOptions(0.1));
  const std::string bytes = encode_checkpoint("mnist-linear", *model, sgd, {});
  const auto error_of = [&](std::string_view content, const std::string& name) {
    std::string error;
    Progress progress;
    CHECK_FALSE(decode_checkpoint(content, name, *model, sgd, progress, error));
    CHECK(error.find('\n') == std::string::npos);
    return error;
  };
  CHECK_THAT(error_of(bytes, "mnist-cnn"),
             Contains("of the model 'mnist-linear', not 'mnist-cnn'"));
  CHECK_THAT(error_of("", "mnist-linear"), Contains("not a checkpoint"));
  CHECK_THAT(error_of(std::string_view(bytes).substr(0, bytes.size() / 2), "mnist-linear"),
             Contains("not a checkpoint"));
  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(damaged[bytes.size() / 2] ^ 4);
  CHECK_THAT(error_of(damaged, "mnist-linear"), Contains("damaged"));
  CHECK_THAT(error_of(add_checksum("no archive at all"), "mnist-linear"), Contains("does not fit"));
}

}  // namespace
}  // namespace hvdrun
