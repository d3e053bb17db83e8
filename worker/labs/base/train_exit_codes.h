// The exit codes of `train` (those of sysexits.h where it has a number).
#pragma once

#include "common/base/exit_code.h"

namespace hvdrun {

enum TrainExitCode : int {
  exit_ok = exit_code::kOk,
  exit_failed = 1,  // a rank was lost, the launcher is gone, something broke
  exit_usage = exit_code::kUsage,
  exit_no_input = 66,       // a data file or checkpoint is missing or not what it should be
  exit_cannot_create = 73,  // a checkpoint or log cannot be written
  exit_diverged = 90,       // the loss or the weights are no numbers any more
};
// These mean nothing else in hvdrun.
static_assert(exit_code::find_row(exit_no_input) == nullptr);
static_assert(exit_code::find_row(exit_cannot_create) == nullptr);
static_assert(exit_code::find_row(exit_diverged) == nullptr);

}  // namespace hvdrun
