// The fate of a run whose losses or weights are no numbers: --on-nan stop, warn or skip. With stop
// the run ends on all ranks (Quit, exit_diverged); with warn it goes on; with skip, steps that are
// not finite change nothing (TrainerOptions::leave_out_not_finite).
#pragma once

#include <cstdint>
#include <string>

#include <torch/torch.h>

#include "worker/labs/options/train_options.h"
#include "worker/labs/report/score.h"
#include "worker/labs/report/train_console.h"
#include "worker/labs/train/loss_watch.h"

namespace hvdrun {

// Speed is measured with random numbers, of which nothing need be learned: --synthetic warns unless
// it is told otherwise.
std::string on_nan(const TrainOptions& options);

// The name of the first parameter or buffer that is not finite; empty: none. One read of the device
// where all are.
std::string first_not_finite(const torch::nn::Module& model);

class RunHealth {
 public:
  // Both outlive it.
  RunHealth(const TrainOptions& options, TrainConsole& console);

  bool leaves_out() const { return policy_ == "skip"; }
  // A step of this rank; no collective.
  void saw(const BadStep& step, bool left_out);
  bool has_news() const { return watch_.has_news(); }
  // Collective, when any rank has news: says so, once in an epoch. Throws Quit.
  void tell();
  // Collective, after the last of an epoch's `steps`: what has not been told yet, and the state of
  // `model`. Throws Quit.
  void end_epoch(std::int64_t epoch, std::int64_t steps, const torch::nn::Module& model);
  // True when the last end_epoch() found a state that is worth a checkpoint; the same on all ranks.
  bool is_sound() const { return is_sound_; }

  // Takes scores that are the same on all ranks; `what` as in "validation loss of epoch 3".
  void judge(const std::string& what, const Score& score);
  // At the end, when all is told and written. Throws Quit where judge() has seen a loss that is
  // none.
  void end_run() const;

 private:
  [[noreturn]] void stop(const std::string& text) const;

  const std::string policy_;
  const bool traces_;
  TrainConsole& console_;
  LossWatch watch_;
  std::int64_t left_out_ = 0;  // in this epoch
  bool told_ = false;          // in this epoch
  bool is_sound_ = true;
  std::string bad_score_;
};

}  // namespace hvdrun
