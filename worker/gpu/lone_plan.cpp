#include "worker/gpu/lone_plan.h"

#include <cmath>

namespace hvdrun {
namespace {

// Whether one factor does what the two do one after the other: their product is not lost, nor are
// they anything but numbers.
bool can_be_one(const Reduction& reduction) {
  if (!std::isfinite(reduction.prescale) || !std::isfinite(reduction.postscale)) return false;
  if (reduction.prescale == 0 || reduction.postscale == 0) return true;
  const double product = reduction.prescale * reduction.postscale;
  return reduction.type == hvd::DataType::float64 ? std::isnormal(product)
                                                  : std::isnormal(static_cast<float>(product));
}

}  // namespace

LoneReduction plan_lone_reduction(const Reduction& reduction) {
  LoneReduction plan;
  plan.normalise = reduction.type == hvd::DataType::boolean;
  switch (reduction.type) {
    case hvd::DataType::float64:
    case hvd::DataType::float32:
    case hvd::DataType::float16:
    case hvd::DataType::bfloat16:
      // One kernel, and 16-bit numbers are rounded once.
      if (can_be_one(reduction)) {
        plan.before = reduction.prescale * reduction.postscale;
        return plan;
      }
      [[fallthrough]];
    default:
      // Whole numbers are truncated after each factor, as where there are other ranks.
      plan.before = reduction.prescale;
      plan.after = reduction.postscale;
      return plan;
  }
}

}  // namespace hvdrun
