#include "worker/hvd/gpu/lone_plan.h"

namespace hvdrun {

LoneReduction plan_lone_reduction(const Reduction& reduction) {
  return {reduction.prescale, reduction.postscale, reduction.type == hvd::DataType::boolean};
}

}  // namespace hvdrun
