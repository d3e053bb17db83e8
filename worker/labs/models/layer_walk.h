// The layers that a batch passes on its way through a model, in order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "worker/labs/models/model.h"

namespace hvdrun {

struct Layer {
  std::string name;  // empty: pooling that is no module
  std::string kind;
  std::vector<std::int64_t> shape;  // of its output
  std::int64_t parameters = 0;      // 0 where a layer is passed again
};

// Layers with parameters, and pooling; the model is in evaluation mode afterwards. Throws where the
// batch does not pass, with the layer's name (failed_layer.h).
std::vector<Layer> layers_of(LabModel& model, const torch::Tensor& batch);

}  // namespace hvdrun
