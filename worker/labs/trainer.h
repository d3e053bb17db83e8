// The training recipe: SGD over shards of global batches, and the evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <hvd/torch.h>

#include "worker/labs/image_batches.h"
#include "worker/labs/models/model.h"
#include "worker/labs/sampler.h"

namespace hvdrun {

// Over all ranks.
struct Score {
  double loss = 0;      // mean
  double accuracy = 0;  // 0 to 1
  std::size_t images = 0;
};

class Trainer {
 public:
  // `sgd` trains the parameters of `model`. hvd::init() has been called.
  Trainer(std::shared_ptr<LabModel> model, torch::optim::SGD& sgd);

  // Called after every step with this rank's loss.
  using StepCallback = std::function<void(double loss)>;
  // At most `max_steps` steps.
  Score train_epoch(const ImageBatches& data, const EpochSampler& order, std::size_t batch_size,
                    std::size_t max_steps, const StepCallback& after_step);
  // Every rank takes its share.
  Score evaluate(const ImageBatches& data);

 private:
  std::shared_ptr<LabModel> model_;
  hvd::DistributedOptimizer optimizer_;
};

}  // namespace hvdrun
