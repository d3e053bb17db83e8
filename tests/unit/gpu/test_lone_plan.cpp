#include <cmath>

#include <catch2/catch.hpp>

#include "worker/gpu/lone_plan.h"

namespace hvdrun {
namespace {

using hvd::DataType;

LoneReduction plan(DataType type, double prescale, double postscale) {
  return plan_lone_reduction({type, hvd::ReduceOp::sum, prescale, postscale});
}

TEST_CASE("two factors of a float are one, unless their product is lost", "[lone]") {
  for (const DataType type : {DataType::float32, DataType::float16, DataType::bfloat16}) {
    CHECK(plan(type, 0.5, 4).before == 2);
    CHECK(plan(type, 0.5, 4).after == 1);
    CHECK(plan(type, 0, 1e30).before == 0);
    for (const double factor : {1e20, 1e-20, 1e-30}) {
      CHECK(plan(type, factor, factor).before == factor);
      CHECK(plan(type, factor, factor).after == factor);
    }
  }
  CHECK(plan(DataType::float64, 1e20, 1e20).after == 1);
  CHECK(plan(DataType::float64, 1e200, 1e200).after == 1e200);
  CHECK(plan(DataType::float64, 1e-200, 1e-200).after == 1e-200);
  CHECK(plan(DataType::float32, 1, HUGE_VAL).after == HUGE_VAL);
}

TEST_CASE("whole numbers have both factors, one after the other", "[lone]") {
  CHECK(plan(DataType::int32, 0.5, 4).before == 0.5);
  CHECK(plan(DataType::int32, 0.5, 4).after == 4);
}

}  // namespace
}  // namespace hvdrun
