// The memory of gradient buckets, which the other ranks of the host reduce where it is.
#pragma once

#include <cstddef>
#include <memory>

namespace hvdrun {

// Zeroed, aligned to kGradientAlignment. Shared, because a gradient tensor that the program keeps
// outlives the optimizer that made it.
std::shared_ptr<void> allocate_bucket_memory(std::size_t bytes);

}  // namespace hvdrun
