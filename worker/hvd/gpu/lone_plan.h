// A reduction where one rank is all there is: nobody to combine with, so no NCCL. Sans-I/O.
#pragma once

#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun {

struct LoneReduction {
  // By one of our kernels, as where there are other ranks: the elements times this, then times
  // that; both 1: nothing to do.
  double before = 1;
  double after = 1;
  bool normalise = false;  // booleans: the bytes become 0 or 1
  bool needs_kernels() const { return before != 1 || after != 1 || normalise; }
};

// For every type and operation, adasum among them: alone each gives its input, scaled.
LoneReduction plan_lone_reduction(const Reduction& reduction);

}  // namespace hvdrun
