// The checkpoint that a run goes on from, and those that it leaves for another: --resume, and the
// bytes of checkpoints.
#pragma once

#include <string>

#include <torch/torch.h>

#include "worker/labs/batches/dataset.h"
#include "worker/labs/checkpoint/checkpoint.h"
#include "worker/labs/checkpoint/checkpoint_folder.h"
#include "worker/labs/options/train_options.h"
#include "worker/labs/report/train_console.h"

namespace hvdrun {

class RunCheckpoints {
 public:
  // All outlive it.
  RunCheckpoints(const TrainOptions& options, TrainConsole& console, Progress& progress)
      : options_(options), console_(console), progress_(progress) {}

  // Collective, before there are data: rank 0 reads, the bytes go to everybody. Their seed counts
  // from here: the samples that the first run has held back are not trained on by the second.
  // A job that was started again goes on from the newest of --checkpoint-dir, if there is one, also
  // without --resume. Throws Quit.
  void find();
  // Where find() has found it; on rank 0 only, elsewhere and where there was none empty.
  const std::string& path() const { return path_; }
  // On rank 0: an earlier start of this job has left it.
  bool is_own() const { return is_own_; }
  // Collective: model, optimizer and progress as they were. Throws Quit. False: find() had none;
  // true: the optimizer's options are those of the first run.
  bool restore(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  // The training set that the run has from now on. Other data than the checkpoint's may be meant;
  // that nobody has said so may not.
  void compare_data(const Dataset& train);

  // Empty, with a warning, where the optimizer's state is no number: the weights may still be for a
  // while.
  std::string encode(const torch::nn::Module& model, const torch::optim::Optimizer& optimizer);

 private:
  CheckpointNames names() const;

  const TrainOptions& options_;
  TrainConsole& console_;
  Progress& progress_;
  std::string path_;
  std::string bytes_;  // until they are restored
  bool found_ = false;
  bool is_own_ = false;
};

}  // namespace hvdrun
