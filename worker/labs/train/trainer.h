// Training over shards of global batches, and the evaluation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "worker/labs/batches/dataset.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/models/model.h"
#include "worker/labs/report/classification_report.h"
#include "worker/labs/report/score.h"
#include "worker/labs/train/nan_trace.h"

namespace hvdrun {

struct TrainerOptions {
  at::Device device = at::kCPU;  // where the model is; batches are moved there
  std::size_t test_batch_size = 256;
  hvd::DistributedOptimizerOptions reduction = {};
  // Half or bfloat16: LibTorch's autocast chooses what calculates in it. With half the loss is
  // scaled (hvd::LossScaler). Double: the model must be of it.
  at::ScalarType type = at::kFloat;
  bool augment = true;
  // In training another sample takes the place of one that cannot be read; otherwise that throws
  // DataError.
  bool replaces_bad = false;
  bool channels_last = false;  // images, and the kernels of convolutions
  // Steps whose results are told together: the host waits for a GPU once for all of them. The same
  // on all ranks.
  std::size_t report_every = 1;
  // A step whose loss or gradients are not finite on any rank changes nothing: no weight, no
  // running mean. The device is waited for in each step then. The same on all ranks.
  bool leave_out_not_finite = false;
  bool trace_nan = false;  // StepResult::origin
};

class Trainer {
 public:
  // `optimizer` trains the parameters of `model`. hvd::init() has been called.
  Trainer(std::shared_ptr<LabModel> model, torch::optim::Optimizer& optimizer,
          const TrainerOptions& options = {});

  struct StepResult {
    std::size_t step;     // in this epoch, from 0
    double loss;          // this rank's part of the step's, without the penalty
    std::size_t samples;  // of all ranks
    bool left_out;        // on all ranks (TrainerOptions::leave_out_not_finite)
    std::string origin;   // where NaN began in it (TrainerOptions::trace_nan)
  };
  struct StepCallbacks {
    std::function<void(std::size_t step)> before;
    std::function<void()> after;  // at once
    std::function<void(const StepResult& result)> report;
    // After each `commit_every` steps that are not the last, when all before have been reported;
    // `done` steps of the epoch. Calling `take`, a collective, gives the score of the steps since
    // the last time, which the epoch's has no more. Never with 0.
    std::size_t commit_every = 0;
    std::function<void(std::size_t done, const std::function<Score()>& take)> commit = {};
  };
  // From step `first` on, the steps before `end`, of global batches of so many samples. A rank's
  // loss counts by its share of a step's samples, so gradients
  // are those of the mean over all of them. What is left out counts in no score. Afterwards all
  // ranks have the same buffers: the averages of what they have seen, running means and variances
  // that is.
  Score train_epoch(Dataset& data, const EpochSampler& order, std::size_t global, std::size_t end,
                    const StepCallbacks& callbacks, std::size_t first = 0);
  // Every rank takes its share; with further passes that of its next neighbour each time. Samples
  // that cannot be read are left out, and told of in the score.
  Score evaluate(Dataset& data, int passes = 1);
  // The matrix of all ranks' shares, without what cannot be read.
  ConfusionMatrix confusion(Dataset& data);

 private:
  torch::Tensor forward(const torch::Tensor& inputs);
  at::ScalarType output_type() const {
    return options_.type == at::kDouble ? at::kDouble : at::kFloat;
  }
  // `loss` with the penalty, weighed; `counts`: this rank's does. False: the step has been left
  // out.
  bool backward_and_step(const torch::Tensor& loss, bool counts);
  bool is_finite_everywhere(const torch::Tensor& loss, bool counts);
  std::vector<at::Tensor> running_buffers() const;
  void average_buffers();
  void begin_test(Dataset& data, int part) const;
  // On the device.
  std::optional<Batch> next(Dataset& data) const;
  torch::Tensor weights_of(const Dataset& data) const;

  std::shared_ptr<LabModel> model_;
  TrainerOptions options_;
  hvd::DistributedOptimizer optimizer_;
  std::optional<hvd::LossScaler> scaler_;
  std::optional<NanTrace> trace_;
};

}  // namespace hvdrun
