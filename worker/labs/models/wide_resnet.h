// Wide residual nets of any depth and width for grey images of 28x28 in ten classes.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/labs/models/registry.h"

namespace hvdrun {

// `depth` is 6 n + 4; throws c10::Error else.
std::shared_ptr<LabModel> make_wide_resnet(std::int64_t depth, std::int64_t width, double dropout);

}  // namespace hvdrun
