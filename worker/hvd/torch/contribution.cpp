#include "worker/hvd/torch/contribution.h"

#include <algorithm>
#include <limits>

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {

Contribution Contribution::now(const hvd::ProcessSet& set) {
  Contribution contribution;
  contribution.counts = hvd::elastic::contributor_rank() >= 0;
  contribution.contributors = hvd::elastic::contributors(set);
  contribution.all = contribution.contributors == ranks_of({{}, set, {}});
  return contribution;
}

double Contribution::nothing(hvd::ReduceOp op) {
  switch (op) {
    case hvd::ReduceOp::min:
      return std::numeric_limits<double>::infinity();
    case hvd::ReduceOp::max:
      return -std::numeric_limits<double>::infinity();
    case hvd::ReduceOp::product:
      return 1;
    case hvd::ReduceOp::average:
    case hvd::ReduceOp::sum:
    case hvd::ReduceOp::adasum:
      break;
  }
  return 0;
}

hvd::ScaleFactors Contribution::factors(hvd::ReduceOp op, hvd::ScaleFactors scale) const {
  if (operation(op) != op) scale.postscale /= std::max(contributors, 1);
  return scale;
}

}  // namespace hvdrun
