// Element-wise reduction of several buffers into one.
#pragma once

#include <cstddef>

#include <hvd/hvd.h>

namespace hvdrun {

// output[i] = sources[0][i] + sources[1][i] + ..., added in this order, divided by `ranks` for an
// average. The sources are aligned for their type; the output need not be, and may be one of the
// sources. Integer sums wrap; an average of int32 is exact.
void reduce(const std::byte* const* sources, std::size_t ranks, std::size_t count,
            hvd::DataType type, hvd::ReduceOp op, std::byte* output);

}  // namespace hvdrun
