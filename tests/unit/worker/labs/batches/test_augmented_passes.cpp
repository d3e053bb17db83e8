// The passes of a run that are augmented: those that are trained on, unless --no-augment is given.
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/batches/image_batches.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"
#include "worker/labs/train/trainer.h"

namespace hvdrun {
namespace {

// Records how it is gone over.
class Watched final : public Dataset {
 public:
  explicit Watched(Dataset& data) : data_(data) {}
  std::size_t size() const override { return data_.size(); }
  std::int64_t classes() const override { return data_.classes(); }
  std::uint32_t checksum() const override { return data_.checksum(); }
  void begin(Pass pass) override {
    augmented.push_back(pass.augment);
    data_.begin(std::move(pass));
  }
  std::optional<Batch> next() override {
    std::optional<Batch> batch = data_.next();
    if (batch) inputs.push_back(batch->inputs.clone());
    return batch;
  }

  std::vector<bool> augmented;  // of each pass
  std::vector<torch::Tensor> inputs;

 private:
  Dataset& data_;
};

TEST_CASE("images are augmented where they are trained on, and nowhere with --no-augment",
          "[augment]") {
  hvd::init();
  LabelledImages clothes = synthetic_clothes(Split::train, 40, 1);
  const ImageSet images{1, kMnistSide, kMnistSide, clothes.images.pixels, clothes.labels};
  // Even what is tested with would be, were its passes.
  ImageBatches batches(images, {}, {0.2, true});
  torch::manual_seed(1);
  const auto model = make_model("mnist-linear");
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.01));
  std::vector<std::vector<torch::Tensor>> seen;
  for (const bool augments : {true, false}) {
    TrainerOptions options;
    options.augment = augments;
    Trainer trainer(model, sgd, options);
    Watched watched(batches);
    trainer.train_epoch(watched, EpochSampler(40, 1, 0), 40, 1, {});
    CHECK(watched.augmented == std::vector<bool>{augments});
    trainer.evaluate(watched, 2);
    trainer.confusion(watched);
    CHECK(watched.augmented == std::vector<bool>{augments, false, false, false});
    seen.push_back(watched.inputs);
    REQUIRE(watched.inputs.size() == 4);
    for (std::size_t pass = 1; pass < 4; ++pass)
      CHECK(watched.inputs[pass].equal(batches.range(0, 40).inputs));
  }
  CHECK_FALSE(seen[0][0].equal(seen[1][0]));
  hvd::shutdown();
}

}  // namespace
}  // namespace hvdrun
