#include <algorithm>
#include <cmath>
#include <memory>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/models/registry.h"
#include "worker/labs/train/synthetic_batches.h"
#include "worker/labs/train/trainer.h"

// Behind LibTorch, which has a CHECK of its own.
#include "tests/turns.h"

namespace hvdrun {
namespace {

constexpr std::int64_t kPhotographSide = 64;  // alexnet-owt takes 63 or more

// Narrow, where it may be: the formats are the same.
std::shared_ptr<LabModel> narrow(const ModelInfo& info) {
  ModelShape shape = info.shape;
  shape.width = std::min<std::int64_t>(shape.width, 4);
  return info.make(shape);
}

TEST_CASE("every model trains in every data format and data type", "[models]") {
  if (!test::takes_turn(2)) return;
  hvd::init();
  for (const ModelInfo& info : models())
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
      CAPTURE(info.name, type);
      torch::manual_seed(1);
      const auto model = narrow(info);
      SyntheticBatches data(*model, 2, 2, info.data.photographs ? kPhotographSide : 0);
      if (type == at::kDouble) model->to(at::kDouble);
      torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(1e-3));
      for (const bool channels_last : {false, true}) {
        CAPTURE(channels_last);
        if (channels_last) model->to_channels_last();
        TrainerOptions options;
        options.type = type;
        options.channels_last = channels_last;
        const Score score =
            Trainer(model, sgd, options).train_epoch(data, EpochSampler(2, 1, 0), 2, 1, {});
        CHECK(score.samples == 2);
        CHECK(std::isfinite(score.loss));
      }
    }
  hvd::shutdown();
}

TEST_CASE("a model gives the same in both data formats", "[models]") {
  for (const ModelInfo& info : models()) {
    CAPTURE(info.name);
    const auto model = narrow(info);
    model->eval();
    torch::Tensor images = model->example(1);
    if (images.dim() != 4) continue;
    images = torch::randn_like(images);
    const torch::NoGradGuard no_grad;
    const torch::Tensor plain = model->forward(images);
    model->to_channels_last();
    const torch::Tensor other = model->forward(images.contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(other.allclose(plain, 1e-3, 1e-4));
  }
}

}  // namespace
}  // namespace hvdrun
