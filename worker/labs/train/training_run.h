// A training: options agreed with the other ranks, data opened, epochs, the test, what is reported.
#pragma once

#include "worker/labs/options/train_options.h"

namespace hvdrun {

// Between hvd::init() and hvd::shutdown(). Throws Quit, DataError and what LibTorch and libhvd
// throw.
void train_model(const TrainOptions& options);

}  // namespace hvdrun
