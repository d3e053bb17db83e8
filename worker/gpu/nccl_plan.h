// What NCCL and our kernels do for a reduction of hvd's. Sans-I/O.
#pragma once

#include <array>
#include <cstddef>

#include <hvd/hvd.h>

#include "worker/comm/reduce.h"
#include "worker/gpu/nccl_api.h"

namespace hvdrun {

struct NcclReduction {
  nccl::DataType type = nccl::float32;
  nccl::RedOp op = nccl::sum;
  // NCCL multiplies each input by this scalar and sums (ncclRedOpCreatePreMulSum); `op` is unused.
  bool premultiply = false;
  std::array<std::byte, 8> scalar = {};  // in `type`
  // By our kernels: the inputs times this before, the result times that after; 1: nothing to do.
  double before = 1;
  double after = 1;
  bool normalise = false;  // booleans: the result's bytes become 0 or 1
  bool needs_kernels() const { return before != 1 || after != 1 || normalise; }
};

// Throws Error(invalid_argument) for 16-bit integers, which NCCL cannot reduce.
NcclReduction plan_reduction(const Reduction& reduction, int ranks);

// What only moves goes as numbers of the same size or as bytes: `count` becomes NCCL's.
nccl::DataType moved_type(hvd::DataType type, std::size_t& count);

}  // namespace hvdrun
