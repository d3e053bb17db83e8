// hvd::init where memory ends, at each place where it may: an error, with no thread left behind
// (one that is still joinable in a destructor ends the program) and none that calls what is gone.
#include <cstdint>
#include <new>
#include <stdexcept>

#include "tests/catch.h"
#include "tests/failing_memory.h"
#include "tests/unit/worker/hvd/api/mini_job.h"
#include "worker/hvd/api/worker_job.h"

namespace hvdrun {
namespace {

// True: a job is made without that allocation, which then was not needed. One that is made works.
bool starts(const EnvironmentLookup& lookup, int allocation) {
  test::failing_allocation = allocation;
  try {
    WorkerJob job(lookup, {});
    const bool was_not_needed = test::failing_allocation >= 0;
    test::failing_allocation = -1;
    float number = 1;
    Operation operation;
    operation.kind = OpKind::allreduce;
    operation.input = operation.output = &number;
    operation.count = 1;
    operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::sum, 1, 1};
    job.sets().world().synchronize(job.sets().world().submit(operation));
    return was_not_needed;
  } catch (const std::bad_alloc&) {
  } catch (const hvd::Error&) {
  }
  test::failing_allocation = -1;
  return false;
}

TEST_CASE("where memory ends in init, what it has begun ends too", "[api][gpu]") {
  test::MiniJob mini(1);
  int places = 0;
  const auto results = mini.run_threads([&](int, const EnvironmentLookup& lookup) {
    while (!starts(lookup, places)) {
      if (++places > 20'000) throw std::runtime_error("it never starts");
    }
  });
  INFO(results[0].text);
  CHECK(results[0].status == 0);
  CHECK(places > 50);
}

}  // namespace
}  // namespace hvdrun
