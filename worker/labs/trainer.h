// Training over shards of global batches, and the evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include <hvd/torch.h>

#include "worker/labs/image_batches.h"
#include "worker/labs/models/model.h"
#include "worker/labs/sampler.h"
#include "worker/labs/score.h"

namespace hvdrun {

class Trainer {
 public:
  // `optimizer` trains the parameters of `model`. hvd::init() has been called.
  Trainer(std::shared_ptr<LabModel> model, torch::optim::Optimizer& optimizer);

  struct StepCallbacks {
    std::function<void(std::size_t step)> before;  // in this epoch, from 0
    std::function<void(double loss)> after;        // this rank's, without the penalty
  };
  // At most `max_steps` steps. Afterwards all ranks have the same buffers: the averages of what
  // they have seen, running means and variances that is.
  Score train_epoch(const ImageBatches& data, const EpochSampler& order, std::size_t batch_size,
                    std::size_t max_steps, const StepCallbacks& callbacks);
  // Every rank takes its share.
  Score evaluate(const ImageBatches& data);

 private:
  void average_buffers();

  std::shared_ptr<LabModel> model_;
  hvd::DistributedOptimizer optimizer_;
};

}  // namespace hvdrun
