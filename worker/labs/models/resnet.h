// ResNet-50 with any number of classes.
#pragma once

#include <cstdint>
#include <memory>

#include "worker/labs/models/model.h"

namespace hvdrun {

// `width`: channels of the first layer, 64 in the paper.
std::shared_ptr<LabModel> make_resnet50(std::int64_t width, std::int64_t classes);

}  // namespace hvdrun
