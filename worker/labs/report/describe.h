// The text of `train --describe` for a model: its layers, one a line, and the sum of its
// parameters.
#pragma once

#include <cstdint>
#include <string>

#include "worker/labs/models/registry.h"

namespace hvdrun {

// Makes the model and sends one example through it; a photograph has sides of `image_size` pixels.
// `recipe` is only told. Throws where the layers do not fit together or the number of parameters is
// not what `info` says, with a text for the user.
std::string describe_model(const ModelInfo& info, const ModelShape& shape, const Recipe& recipe,
                           std::int64_t image_size = 224);

}  // namespace hvdrun
