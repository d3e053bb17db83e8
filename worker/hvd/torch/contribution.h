// The weight of this rank's work in a step: nothing in the first one of a rank that is new in an
// elastic job (hvd::elastic::contributors()).
#pragma once

#include <hvd/torch.h>

namespace hvdrun {

// An optimizer's round has the one of its beginning, where all ranks are at the same place:
// optimizers may step in turn, and the first of them ends a first step.
struct Contribution {
  bool counts = true;
  int contributors = 1;  // of the process set, whose averages are over them
  bool all = true;       // of its ranks

  static Contribution now(const hvd::ProcessSet& set);
  // The element that changes nothing.
  static double nothing(hvd::ReduceOp op);
  // The reduction that is `op` over the contributors, where the others bring zeros.
  hvd::ReduceOp operation(hvd::ReduceOp op) const {
    return !all && op == hvd::ReduceOp::average ? hvd::ReduceOp::sum : op;
  }
  // With the division of such an average.
  hvd::ScaleFactors factors(hvd::ReduceOp op, hvd::ScaleFactors scale) const;
};

}  // namespace hvdrun
