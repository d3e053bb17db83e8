#include "worker/labs/train/learning_rates.h"

#include <cstddef>

namespace hvdrun {

LearningRates::LearningRates(const Recipe& recipe, torch::optim::Optimizer& optimizer, double rate,
                             int steps_per_epoch)
    : recipe_(recipe), optimizer_(optimizer), steps_per_epoch_(steps_per_epoch) {
  const auto warmup = static_cast<int>(recipe.warmup_epochs);
  if (warmup > 0)
    schedules_.push_back(hvd::warmup_schedule(optimizer, rate, warmup, steps_per_epoch));
  if (recipe.drops.empty()) return;
  hvd::LearningRateOptions after_warmup;
  after_warmup.start_epoch = warmup;
  schedules_.emplace_back(
      optimizer, rate, [this](double epoch) { return recipe_.factor(epoch); }, after_warmup);
}

void LearningRates::go_on_after(std::int64_t epoch) {
  begin_epoch(epoch);
  for (const int step : {0, steps_per_epoch_ - 1}) {
    for (hvd::LearningRateSchedule& schedule : schedules_) {
      schedule.on_batch_begin(step);
      schedule.on_batch_end();
    }
  }
}

void LearningRates::go_on_at(std::int64_t epoch, std::size_t step) {
  begin_epoch(epoch);
  begin_step(step - 1);
  end_step();
}

void LearningRates::begin_epoch(std::int64_t epoch) {
  for (hvd::LearningRateSchedule& schedule : schedules_)
    schedule.on_epoch_begin(static_cast<int>(epoch));
}

void LearningRates::begin_step(std::size_t step) {
  for (hvd::LearningRateSchedule& schedule : schedules_)
    schedule.on_batch_begin(static_cast<int>(step));
}

void LearningRates::end_step() {
  for (hvd::LearningRateSchedule& schedule : schedules_) schedule.on_batch_end();
}

double LearningRates::now() const { return optimizer_.param_groups().front().options().get_lr(); }

}  // namespace hvdrun
