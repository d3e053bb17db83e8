#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/base/thread_plan.h"

namespace hvdrun {
namespace {

TEST_CASE("decoding and computing share the cores of a rank", "[threads]") {
  for (std::size_t cores = 1; cores <= 70; ++cores) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const std::size_t share = cores / static_cast<std::size_t>(ranks);
      const bool on_gpu = GENERATE(false, true);
      CAPTURE(cores, ranks, on_gpu);
      // Without a launcher LibTorch would take all cores.
      const ThreadPlan plan = plan_threads({cores, ranks, cores, 0, on_gpu});
      CHECK(plan.decoding >= 1);
      CHECK(plan.computing >= 1);
      if (share >= 2) CHECK(plan.decoding + plan.computing == share);
    }
  }
}

TEST_CASE("a rank of one core has a thread of each kind", "[threads]") {
  const ThreadPlan plan = plan_threads({2, 4, 2, 0, false});
  CHECK(plan.decoding == 1);
  CHECK(plan.computing == 1);
}

TEST_CASE("on a GPU all cores but one decode, on a CPU a quarter", "[threads]") {
  CHECK(plan_threads({16, 2, 8, 0, true}).decoding == 7);
  CHECK(plan_threads({16, 2, 8, 0, true}).computing == 1);
  CHECK(plan_threads({16, 2, 8, 0, false}).decoding == 2);
  CHECK(plan_threads({16, 2, 8, 0, false}).computing == 6);
}

TEST_CASE("what the user says of threads is taken", "[threads]") {
  const ThreadPlan said = plan_threads({4, 1, 4, 9, false});
  CHECK(said.decoding == 9);
  CHECK(said.computing == 4);
  CHECK(plan_threads({16, 1, 3, 0, false}).computing == 3);
}

}  // namespace
}  // namespace hvdrun
