#include "worker/gpu/lone_plan.h"

namespace hvdrun {

LoneReduction plan_lone_reduction(const Reduction& reduction) {
  LoneReduction plan;
  plan.normalise = reduction.type == hvd::DataType::boolean;
  switch (reduction.type) {
    case hvd::DataType::float64:
    case hvd::DataType::float32:
    case hvd::DataType::float16:
    case hvd::DataType::bfloat16:
      // One kernel, and 16-bit numbers are rounded once.
      plan.before = reduction.prescale * reduction.postscale;
      return plan;
    default:
      // Whole numbers are truncated after each factor, as where there are others.
      plan.before = reduction.prescale;
      plan.after = reduction.postscale;
      return plan;
  }
}

}  // namespace hvdrun
