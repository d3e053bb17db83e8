// The layer that a forward pass fails in, or the loss: LibTorch's error has two shapes, and no
// name.
#pragma once

#include <cstdint>

#include "worker/labs/models/model.h"

namespace hvdrun {

// model.forward(batch). Where that fails it throws a std::runtime_error of one line that names the
// layer, what it is and what it was given, before LibTorch's words; the model is in evaluation mode
// then. No rank waits for another in it that has not failed.
torch::Tensor checked_forward(LabModel& model, const torch::Tensor& batch);

// model.loss(...) over data of `classes` classes. Where that fails it throws a std::runtime_error
// of one line that says what the model has given. (On a GPU such errors come later, from
// elsewhere.)
torch::Tensor checked_loss(const LabModel& model, const torch::Tensor& output,
                           const torch::Tensor& labels, const torch::Tensor& class_weights,
                           std::int64_t classes);

}  // namespace hvdrun
