// The exit codes of `train` (those of sysexits.h where it has a number).
#pragma once

namespace hvdrun {

enum TrainExitCode : int {
  exit_ok = 0,
  exit_failed = 1,          // a rank was lost, the launcher is gone, something broke
  exit_usage = 64,          // wrong options
  exit_no_input = 66,       // a data file or checkpoint is missing or not what it should be
  exit_cannot_create = 73,  // a checkpoint or log cannot be written
  exit_diverged = 90,       // the loss or the weights are no numbers any more
};

}  // namespace hvdrun
