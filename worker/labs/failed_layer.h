// Which layer a forward pass fails in: LibTorch's error has two shapes, and no name.
#pragma once

#include <string>

#include "worker/labs/models/model.h"

namespace hvdrun {

// Sends `batch`, which the model could not take, through it once more, in evaluation mode, so that
// no rank waits for another. Gives a line that names the layer, what it is and what it was given
// before `said`, or `said` alone where the pass fails no more.
std::string failed_layer(LabModel& model, const torch::Tensor& batch, const std::string& said);

// What LibTorch says, without the lines behind the first.
std::string words_of(const std::exception& error);

}  // namespace hvdrun
