// The learning rate of each step: a recipe's warm-up and drops, for all ranks together.
#pragma once

#include <cstdint>
#include <vector>

#include <hvd/callbacks.h>
#include <torch/torch.h>

#include "worker/labs/models/recipe.h"

namespace hvdrun {

class LearningRates {
 public:
  // `rate`: of all ranks, behind the warm-up. Both outlive it. The first batch of an epoch sets the
  // optimizer's.
  LearningRates(const Recipe& recipe, torch::optim::Optimizer& optimizer, double rate,
                int steps_per_epoch);
  LearningRates(const LearningRates&) = delete;
  LearningRates& operator=(const LearningRates&) = delete;

  // The rate of the last step of an epoch before, from 0, as this number of ranks has it: momentum
  // is corrected by how the next one differs from it.
  void go_on_after(std::int64_t epoch);

  // Likewise, before the `step`th of this epoch, from 1.
  void go_on_at(std::int64_t epoch, std::size_t step);

  void begin_epoch(std::int64_t epoch);
  void begin_step(std::size_t step);
  void end_step();

  bool change() const { return !schedules_.empty(); }
  double now() const;

 private:
  const Recipe& recipe_;
  torch::optim::Optimizer& optimizer_;
  const int steps_per_epoch_;
  std::vector<hvd::LearningRateSchedule> schedules_;
};

}  // namespace hvdrun
