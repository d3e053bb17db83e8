#include <cstdio>
#include <sstream>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/base/training_device.h"
#include "worker/labs/batches/image_batches.h"
#include "worker/labs/checkpoint/checked_file.h"
#include "worker/labs/checkpoint/checkpoint.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"
#include "worker/labs/train/trainer.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using torch::optim::SGD;
using torch::optim::SGDOptions;

ImageBatches digit_batches(Split split, std::size_t count) {
  LabelledImages digits = synthetic_digits(split, count, 1);
  return {ImageSet{1, kMnistSide, kMnistSide, std::move(digits.images.pixels),
                   std::move(digits.labels)},
          kMnistScaling};
}

// The way of `train`, in small: one rank, dropout streams by epoch.
Score train(const std::shared_ptr<LabModel>& model, SGD& sgd, ImageBatches& data,
            std::uint64_t first_epoch, std::uint64_t last_epoch) {
  Trainer trainer(model, sgd);
  Score score;
  for (std::uint64_t epoch = first_epoch; epoch <= last_epoch; ++epoch) {
    torch::manual_seed(SplitMix(1, epoch).next());
    score = trainer.train_epoch(data, EpochSampler(data.size(), 1, epoch), 32, 1'000'000, {});
  }
  return score;
}

TEST_CASE("the net beats a linear model on the synthetic digits by far", "[learning]") {
  hvd::init();
  ImageBatches digits = digit_batches(Split::train, 8000);
  ImageBatches unseen = digit_batches(Split::test, 1000);
  const auto accuracy = [&](const std::string& name, const SGDOptions& options) {
    torch::manual_seed(1);
    const auto model = make_model(name, 0.25);
    SGD sgd(model->parameters(), options);
    train(model, sgd, digits, 0, 2);
    const Score score = Trainer(model, sgd).evaluate(unseen);
    CHECK(score.samples == 1000);
    const Score thrice = Trainer(model, sgd).evaluate(unseen, 3);
    CHECK(thrice.samples == 3000);
    CHECK(thrice.accuracy == Approx(score.accuracy));
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

// One step of a net that only has its penalty: weights shrink by the rate times its gradient.
class Decaying final : public LabModel {
 public:
  Decaying() : weight_(register_parameter("weight", torch::full({1}, 8.0F))) {}
  torch::Tensor forward(const torch::Tensor& images) override {
    return torch::log_softmax(images.flatten(1).slice(1, 0, 10) + 0 * weight_, 1);
  }
  torch::Tensor penalty() const override { return 0.5 * weight_.square().sum(); }
  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 1, 28, 28}); }

 private:
  torch::Tensor weight_;
};

TEST_CASE("a penalty moves the weights and is no part of the loss", "[training]") {
  hvd::init();
  ImageBatches digits = digit_batches(Split::train, 32);
  const auto model = std::make_shared<Decaying>();
  SGD sgd(model->parameters(), SGDOptions(0.25));
  const Score score = train(model, sgd, digits, 0, 0);
  CHECK(model->parameters()[0].item<float>() == 6.0F);
  CHECK(score.loss < 8);
  hvd::shutdown();
}

// Some digits of which those of one class count, and no others.
class OneClassCounts final : public Dataset {
 public:
  OneClassCounts(ImageBatches& digits, std::size_t label) : digits_(digits), weights_(10) {
    weights_.at(label) = 2;
  }
  std::size_t size() const override { return digits_.size(); }
  std::int64_t classes() const override { return 10; }
  std::uint32_t checksum() const override { return digits_.checksum(); }
  std::vector<double> class_weights() const override { return weights_; }
  void begin(Pass pass) override { digits_.begin(std::move(pass)); }
  std::optional<Batch> next() override { return digits_.next(); }

 private:
  ImageBatches& digits_;
  std::vector<double> weights_;
};

TEST_CASE("a class that counts nothing teaches nothing, and is no part of the loss", "[training]") {
  hvd::init();
  ImageBatches digits = digit_batches(Split::train, 64);
  const torch::Tensor labels = digits.range(0, 64).labels;
  OneClassCounts fours(digits, 4);
  const auto model = std::make_shared<Decaying>();  // its outputs are some pixels
  SGD sgd(model->parameters(), SGDOptions(0));
  const torch::Tensor all = model->forward(digits.range(0, 64).inputs).detach();
  double expected = 0;
  for (std::int64_t i = 0; i < 64; ++i)
    if (labels[i].item<std::int64_t>() == 4) expected -= 2 * all[i][4].item<double>();
  REQUIRE(expected > 0);
  Trainer trainer(model, sgd);
  CHECK(trainer.evaluate(fours).loss == Approx(expected / 64).epsilon(1e-5));
  CHECK(trainer.train_epoch(fours, EpochSampler(64, 1, 0), 32, 1000, {}).loss ==
        Approx(expected / 64).epsilon(1e-5));

  // Softmax regression gives each class a bias, which only its own and others' errors move.
  torch::manual_seed(1);
  const auto linear = make_model("mnist-linear");
  const torch::Tensor bias = linear->named_parameters()["fc.bias"];
  const torch::Tensor before = bias.detach().clone();
  SGD descent(linear->parameters(), SGDOptions(0.1));
  Trainer(linear, descent).train_epoch(fours, EpochSampler(64, 1, 0), 64, 1, {});
  const torch::Tensor gain = bias.detach() - before;
  for (std::int64_t i = 0; i < 10; ++i) CHECK((gain[i].item<double>() > 0) == (i == 4));
  hvd::shutdown();
}

TEST_CASE("steps are told one by one or some together, with the same losses", "[training]") {
  hvd::init();
  ImageBatches digits = digit_batches(Split::train, 160);
  const auto told = [&](std::size_t together) {
    torch::manual_seed(1);
    const auto model = make_model("mnist-linear");
    SGD sgd(model->parameters(), SGDOptions(0.1));
    TrainerOptions options;
    options.report_every = together;
    std::vector<double> losses;
    std::vector<std::size_t> done;  // steps, when each was told
    std::size_t steps = 0;
    Trainer(model, sgd, options)
        .train_epoch(digits, EpochSampler(160, 1, 0), 32, 1000,
                     {{},
                      [&] { ++steps; },
                      [&](const Trainer::StepResult& result) {
                        CHECK(result.step == losses.size());
                        CHECK(result.samples == 32);
                        losses.push_back(result.loss);
                        done.push_back(steps);
                      }});
    return std::pair(losses, done);
  };
  const auto [losses, done] = told(1);
  CHECK(done == std::vector<std::size_t>{1, 2, 3, 4, 5});
  CHECK(losses[0] == Approx(2.3).epsilon(0.2));
  const auto [same, later] = told(2);
  CHECK(later == std::vector<std::size_t>{2, 2, 4, 4, 5});
  CHECK(same == losses);
  hvd::shutdown();
}

TEST_CASE("a checkpoint of before has no epochs on target and knows no data", "[checkpoint]") {
  const auto model = make_model("mnist-linear");
  SGD sgd(model->parameters(), SGDOptions(0.1));
  torch::serialize::OutputArchive archive;
  for (const char* key : {"format", "epochs", "steps", "seed"})
    archive.write(key, c10::IValue(std::int64_t{1}));
  archive.write("model_name", c10::IValue(std::string("mnist-linear")));
  for (const char* key : {"model", "optimizer"}) {
    torch::serialize::OutputArchive inner;
    if (key == std::string("model"))
      model->save(inner);
    else
      sgd.save(inner);
    archive.write(key, inner);
  }
  std::ostringstream stream;
  archive.save_to(stream);
  Progress progress;
  progress.on_target = 7;
  progress.data = TrainingSet{1, 2};
  std::string error;
  CHECK(decode_checkpoint(add_checksum(stream.str()), {"mnist-linear"}, *model, sgd, progress,
                          error) == CheckpointFault::none);
  CHECK(error == "");
  CHECK(progress.on_target == 0);
  CHECK_FALSE(progress.data);
}

TEST_CASE("a run that goes on from a checkpoint is the run that was not broken", "[checkpoint]") {
  hvd::init();
  ImageBatches digits = digit_batches(Split::train, 400);
  const SGDOptions options = SGDOptions(0.05).momentum(0.9);
  torch::manual_seed(1);
  const auto model = make_model("mnist-cnn");
  SGD sgd(model->parameters(), options);
  train(model, sgd, digits, 0, 0);
  const std::string bytes =
      encode_checkpoint({"mnist-cnn"}, *model, sgd,
                        {1, 12, 99, 3, 0.75, 2, 1.5, TrainingSet{digits.checksum(), 400}});
  const Score unbroken = train(model, sgd, digits, 1, 1);

  const auto other = make_model("mnist-cnn");
  SGD other_sgd(other->parameters(), options);
  Progress progress;
  std::string error;
  REQUIRE(decode_checkpoint(bytes, {"mnist-cnn"}, *other, other_sgd, progress, error) ==
          CheckpointFault::none);
  CHECK(progress.epochs == 1);
  CHECK(progress.steps == 12);
  CHECK(progress.seed == 99);
  CHECK(progress.on_target == 3);
  CHECK(progress.best_loss == 0.75);
  CHECK(progress.without_gain == 2);
  CHECK(progress.seconds == 1.5);
  REQUIRE(progress.data);
  CHECK(progress.data->checksum == digits.checksum());
  CHECK(progress.data->samples == 400);
  const Score resumed = train(other, other_sgd, digits, 1, 1);
  CHECK(resumed.loss == unbroken.loss);
  for (std::size_t i = 0; i < model->parameters().size(); ++i) {
    CHECK(other->parameters()[i].equal(model->parameters()[i]));
  }
  hvd::shutdown();
}

TEST_CASE("a checkpoint of another shape or type is refused before anything is loaded",
          "[checkpoint]") {
  const auto model_of = [](std::int64_t width, std::int64_t classes, at::ScalarType type) {
    auto model = find_model("resnet50")->make({0, 0, width, classes});
    model->to(type);
    return model;
  };
  const auto saved = model_of(8, 10, at::kFloat);
  SGD sgd(saved->parameters(), SGDOptions(0.1));
  const std::string bytes = encode_checkpoint({"resnet50"}, *saved, sgd, {});
  const auto error_of = [&](std::int64_t width, std::int64_t classes, at::ScalarType type) {
    const auto other = model_of(width, classes, type);
    const torch::Tensor before = other->parameters()[0].detach().clone();
    SGD descent(other->parameters(), SGDOptions(0.1));
    Progress progress;
    std::string error;
    const bool taken = decode_checkpoint(bytes, {"resnet50"}, *other, descent, progress, error) ==
                       CheckpointFault::none;
    CHECK(taken == error.empty());
    if (!error.empty()) CHECK(other->parameters()[0].equal(before));
    return error;
  };
  CHECK(error_of(8, 10, at::kFloat) == "");
  CHECK_THAT(error_of(16, 10, at::kFloat),
             Contains("it has conv1.weight [8, 3, 7, 7] Float where this model has conv1.weight "
                      "[16, 3, 7, 7] Float"));
  CHECK_THAT(error_of(8, 20, at::kFloat),
             Contains("fc.weight [10, 256] Float") && Contains("fc.weight [20, 256] Float"));
  CHECK_THAT(error_of(8, 10, at::kDouble),
             Contains("Float where this model has") && Contains("Double") && Contains("--dtype"));
}

TEST_CASE("a checkpoint that cannot be used is one line", "[checkpoint]") {
  const auto model = make_model("mnist-linear");
  SGD sgd(model->parameters(), SGDOptions(0.1));
  const std::string bytes = encode_checkpoint({"mnist-linear"}, *model, sgd, {});
  const auto error_of = [&](std::string_view content, const std::string& name) {
    std::string error;
    Progress progress;
    CHECK(decode_checkpoint(content, {name}, *model, sgd, progress, error) ==
          CheckpointFault::unfit);
    CHECK(error.find('\n') == std::string::npos);
    return error;
  };
  CHECK_THAT(error_of(bytes, "mnist-cnn"),
             Contains("of the model 'mnist-linear', not 'mnist-cnn'"));
  std::string error;
  Progress progress;
  CHECK(decode_checkpoint(bytes, {"mnist-linear", "lamb"}, *model, sgd, progress, error) ==
        CheckpointFault::unfit);
  CHECK(error == "a checkpoint of the optimizer 'sgd', not 'lamb'");
  CHECK_THAT(error_of("", "mnist-linear"), Contains("not a checkpoint"));
  CHECK_THAT(error_of(std::string_view(bytes).substr(0, bytes.size() / 2), "mnist-linear"),
             Contains("not a checkpoint"));
  std::string damaged = bytes;
  damaged[bytes.size() / 2] = static_cast<char>(damaged[bytes.size() / 2] ^ 4);
  CHECK_THAT(error_of(damaged, "mnist-linear"), Contains("damaged"));
  CHECK_THAT(error_of(add_checksum("no archive at all"), "mnist-linear"), Contains("does not fit"));
}

TEST_CASE("on a CPU batches stay where they are", "[device]") {
  const torch::Tensor batch = torch::rand({2, 3});
  CHECK(on_device(batch, at::kCPU).data_ptr() == batch.data_ptr());
}

}  // namespace
}  // namespace hvdrun
