// An optimizer's words to the timeline.
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using test::fake_job;
using test::reset_fake_job;
using Lines = std::vector<std::string>;

// The numbers of hvd::Activity: 3 backward, 4 synchronize, 5 step. Without the lane, whose number
// counts the optimizers of the process.
Lines taken() {
  Lines lines = std::exchange(fake_job().timeline, {});
  for (std::string& line : lines) {
    CHECK_THAT(line, Catch::StartsWith("DistributedOptimizer."));
    line.erase(0, line.find(' ') + 1);
  }
  return lines;
}

struct StepFixture {
  StepFixture() {
    reset_fake_job();
    fake_job().timeline_on = true;
  }
  void backward() { ((a * b).sum() * 2).backward(); }

  torch::Tensor a = torch::ones({4}).requires_grad_();
  torch::Tensor b = torch::ones({4}).requires_grad_();
  torch::optim::SGD sgd{{a, b}, 0.1};
};

TEST_CASE_METHOD(StepFixture, "a step is backward, the wait for gradients, the step itself",
                 "[optimizer][timeline]") {
  hvd::DistributedOptimizer optimizer(sgd);
  optimizer.zero_grad();
  CHECK(taken().empty());
  backward();
  CHECK(taken() == Lines{"3 begin", "3 end"});
  optimizer.step();
  CHECK(taken() == Lines{"4 begin", "4 end", "5 begin", "5 end"});
}

TEST_CASE_METHOD(StepFixture, "each backward of a step is told", "[optimizer][timeline]") {
  hvd::DistributedOptimizerOptions options;
  options.backward_passes_per_step = 2;
  hvd::DistributedOptimizer optimizer(sgd, options);
  backward();
  backward();
  CHECK(taken().size() == 4);
}

TEST_CASE_METHOD(StepFixture, "a backward that throws ends with what follows it",
                 "[optimizer][timeline]") {
  hvd::DistributedOptimizer optimizer(sgd);
  backward();
  taken();
  CHECK_THROWS_AS(backward(), hvd::Error);  // once more than it may
  const Lines lines = taken();
  REQUIRE(lines.size() == 1);
  const bool waits = GENERATE(true, false);
  waits ? optimizer.synchronize() : optimizer.zero_grad();
  CHECK(taken().front() == "3 end");
}

TEST_CASE_METHOD(StepFixture, "an optimizer tells nothing while the timeline is off",
                 "[optimizer][timeline]") {
  fake_job().timeline_on = false;
  hvd::DistributedOptimizer optimizer(sgd);
  backward();
  optimizer.step();
  CHECK(taken().empty());
}

}  // namespace
}  // namespace hvdrun
