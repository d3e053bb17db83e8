// The data of a run, and the threads that bring it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/labs/batches/dataset.h"
#include "worker/labs/models/model.h"
#include "worker/labs/options/train_options.h"

namespace hvdrun {

// Collective. That of the files, or with --synthetic random numbers; every rank has the same, and
// enough for one step of `global_batch` samples. Throws Quit where a file cannot be read or ranks
// differ. What is held back for validation follows from `seed`. Where images are decoded LibTorch
// computes with fewer threads from now on (thread_plan.h).
DataSets open_run_data(const TrainOptions& options, const ModelInfo& model, at::Device device,
                       std::size_t global_batch, std::uint64_t seed);

}  // namespace hvdrun
