#include "tests/catch.h"
#include "worker/hvd/gpu/lone_plan.h"

namespace hvdrun {
namespace {

using hvd::DataType;

LoneReduction plan(DataType type, double prescale, double postscale) {
  return plan_lone_reduction({type, hvd::ReduceOp::sum, prescale, postscale});
}

TEST_CASE("one rank alone has both factors, one after the other", "[lone]") {
  for (const DataType type : {DataType::float32, DataType::float64, DataType::int32}) {
    // Their product would be lost, or hide that the first one leads beyond what the type holds.
    CHECK(plan(type, 1e30, 1e-30).before == 1e30);
    CHECK(plan(type, 1e30, 1e-30).after == 1e-30);
    CHECK(plan(type, 1, 4).needs_kernels());
    CHECK_FALSE(plan(type, 1, 1).needs_kernels());
  }
  CHECK(plan(DataType::boolean, 1, 1).normalise);
}

}  // namespace
}  // namespace hvdrun
