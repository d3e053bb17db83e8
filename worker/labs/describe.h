// What `train --describe` prints of a model: its layers, one a line, and the sum of its parameters.
#pragma once

#include <string>

#include "worker/labs/models/registry.h"

namespace hvdrun {

// Makes the model and sends one example through it.
std::string describe_model(const ModelInfo& info, const ModelShape& shape);

}  // namespace hvdrun
