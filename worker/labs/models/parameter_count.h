// A check that a model has as many parameters as its ModelInfo says.
#pragma once

#include <cstdint>
#include <string>

#include "worker/labs/models/model.h"

namespace hvdrun {

std::int64_t count_parameters(const LabModel& model);

// `model` was made with `shape`. Empty where the number is right, or is that of another shape. A
// layer that does not fit the others is told before: its size is why the number is wrong.
std::string wrong_count(const ModelInfo& info, const ModelShape& shape, LabModel& model);

}  // namespace hvdrun
