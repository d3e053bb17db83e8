// `train` from its options to its exit code, with the errors that end it.
#pragma once

#include "worker/labs/options/train_options.h"

namespace hvdrun {

// Gives the exit code. Never throws.
int run_training(const TrainOptions& options);

// Prints the layers of the model, on one rank only, and gives the exit code. Never throws.
int run_description(const TrainOptions& options);

// Prints the help or the error of the command line, on one rank only, and gives the exit code.
int report_options(const ParsedOptions& parsed);

}  // namespace hvdrun
