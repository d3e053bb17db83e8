// Which layer a forward pass fails in: LibTorch's error has two shapes, and no name.
#pragma once

#include "worker/labs/models/model.h"

namespace hvdrun {

// model.forward(batch). Where that fails it throws a std::runtime_error of one line that names the
// layer, what it is and what it was given, before LibTorch's words; the model is in evaluation mode
// then. No rank waits for another in it that has not failed.
torch::Tensor checked_forward(LabModel& model, const torch::Tensor& batch);

}  // namespace hvdrun
