// Callbacks of a training loop, with Horovod's formulas: learning rates that follow the number of
// ranks, checkpoints by one of them, and an end that all come to in the same epoch. <hvd/torch.h>
// includes this.
//
//   torch::optim::SGD sgd(model->parameters(), 0.01 * hvd::size());
//   hvd::LearningRateSchedule warmup =
//       hvd::warmup_schedule(sgd, 0.01 * hvd::size(), /*warmup_epochs=*/5, steps);
//   hvd::EarlyStop early;
//   for (int epoch = 0; epoch < epochs; ++epoch) {
//     warmup.on_epoch_begin(epoch);
//     for (int step = 0; step < steps; ++step) {
//       warmup.on_batch_begin(step);
//       ...
//       warmup.on_batch_end();
//     }
//     if (early.update(validation_loss())) break;
//   }
//
// A process set is of ranks that train together, as DistributedOptimizerOptions::process_set: they
// alone call these, and count. Errors as in <hvd/hvd.h>. Not thread-safe. An optimizer must outlive
// what is made for it.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <hvd/hvd.h>
#include <torch/torch.h>

namespace hvd {

struct LearningRateOptions {
  // The schedule holds from this epoch on, and before that one; outside it changes nothing.
  int start_epoch = 0;
  std::optional<int> end_epoch;
  // Once for each epoch, at its first batch; otherwise at each batch, where the epoch is
  // epoch + batch / steps_per_epoch.
  bool staircase = true;
  int steps_per_epoch = 0;  // at least 1 when not staircase
  // For the batch in which the rate changes, momentum is multiplied by new rate / old rate: the
  // velocity holds gradients times the old one.
  bool momentum_correction = true;
};

// The learning rate of all parameter groups is initial_lr * multiplier(epoch).
class HVD_EXPORT LearningRateSchedule {
 public:
  // initial_lr is the rate for all ranks together (a single process's times size(), as a rule).
  LearningRateSchedule(torch::optim::Optimizer& optimizer, double initial_lr,
                       std::function<double(double epoch)> multiplier,
                       const LearningRateOptions& options = {});

  // Epochs and batches count from 0.
  void on_epoch_begin(int epoch) { epoch_ = epoch; }
  // Before the optimizer's step of the batch.
  void on_batch_begin(int batch);
  // After it.
  void on_batch_end();

 private:
  void adjust(double epoch);

  torch::optim::Optimizer& optimizer_;
  double initial_lr_;
  std::function<double(double)> multiplier_;
  LearningRateOptions options_;
  int epoch_ = 0;
  std::vector<double> momenta_;  // of the groups, while they are corrected
};

// From initial_lr / size() (of the set) in a straight line to initial_lr, over warmup_epochs.
HVD_EXPORT LearningRateSchedule warmup_schedule(torch::optim::Optimizer& optimizer,
                                                double initial_lr, int warmup_epochs,
                                                int steps_per_epoch,
                                                bool momentum_correction = true,
                                                const ProcessSet& process_set = {});
// initial_lr * multiplier ^ (epoch - start_epoch), in steps of an epoch.
HVD_EXPORT LearningRateSchedule exponential_schedule(torch::optim::Optimizer& optimizer,
                                                     double initial_lr, double multiplier,
                                                     LearningRateOptions options = {});

// Rank `root` (of the job) calls write(name of a file beside `path`). It gives that file the name
// `path` when write() has returned and the bytes are on the disk. So a reader sees the old file or
// the new one, never a part. Every rank calls it and returns after that. When it has failed, every
// rank throws Error(unavailable) with the reason. The old file is there as before then, unless it
// was only the folder that could not be flushed.
HVD_EXPORT void checkpoint_on_root(const std::string& path,
                                   const std::function<void(const std::string& file)>& write,
                                   int root = 0, const ProcessSet& process_set = {});

struct EarlyStopOptions {
  // So many updates in a row without an improvement end the training; at least 1.
  int patience = 1;
  // A smaller gain on the best is no improvement.
  double min_delta = 0;
  // A loss gets better by falling, an accuracy by rising.
  bool higher_is_better = false;
  ProcessSet process_set{};
};

// Stops all ranks in the same epoch: what is compared is the metric's average over the ranks.
class HVD_EXPORT EarlyStop {
 public:
  explicit EarlyStop(const EarlyStopOptions& options = {});

  // Every rank calls it with its own metric; the answer is the same on all. An average that is not
  // a number is no improvement.
  bool update(double metric);
  // The best average so far; not a number before the first.
  double best() const { return best_; }

 private:
  EarlyStopOptions options_;
  double best_ = std::numeric_limits<double>::quiet_NaN();
  int without_improvement_ = 0;
};

}  // namespace hvd
