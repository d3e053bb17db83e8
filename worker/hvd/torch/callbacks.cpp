#include <cmath>
#include <string>
#include <utility>

#include <hvd/torch.h>

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

// The momentum of one parameter group; none where the optimizer has no such option.
std::optional<double> momentum_of(torch::optim::OptimizerOptions& options) {
  if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) return sgd->momentum();
  if (auto* rms = dynamic_cast<torch::optim::RMSpropOptions*>(&options)) return rms->momentum();
  return std::nullopt;
}

void set_momentum(torch::optim::OptimizerOptions& options, double momentum) {
  if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&options)) sgd->momentum(momentum);
  if (auto* rms = dynamic_cast<torch::optim::RMSpropOptions*>(&options)) rms->momentum(momentum);
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

LearningRateSchedule::LearningRateSchedule(torch::optim::Optimizer& optimizer, double initial_lr,
                                           std::function<double(double)> multiplier,
                                           const LearningRateOptions& options)
    : optimizer_(optimizer),
      initial_lr_(initial_lr),
      multiplier_(std::move(multiplier)),
      options_(options) {
  if (!multiplier_) hvdrun::invalid_tensor("LearningRateSchedule: no multiplier");
  if (!options_.staircase && options_.steps_per_epoch < 1)
    hvdrun::invalid_tensor("LearningRateSchedule: steps_per_epoch is " +
                           std::to_string(options_.steps_per_epoch) +
                           "; without staircase at least 1");
}

void LearningRateSchedule::on_batch_begin(int batch) {
  if (epoch_ < options_.start_epoch) return;
  if (options_.end_epoch && epoch_ >= *options_.end_epoch) return;
  if (!options_.staircase) {
    adjust(epoch_ + static_cast<double>(batch) / options_.steps_per_epoch);
  } else if (batch == 0) {
    adjust(epoch_);
  }
}

void LearningRateSchedule::adjust(double epoch) {
  on_batch_end();  // in case that the loop left the batch before it
  const double rate = initial_lr_ * multiplier_(epoch);
  for (torch::optim::OptimizerParamGroup& group : optimizer_.param_groups()) {
    torch::optim::OptimizerOptions& options = group.options();
    const double old_rate = options.get_lr();
    options.set_lr(rate);
    const std::optional<double> momentum = hvdrun::momentum_of(options);
    momenta_.push_back(momentum.value_or(0));
    if (options_.momentum_correction && momentum && old_rate != 0)
      hvdrun::set_momentum(options, *momentum * rate / old_rate);
  }
}

void LearningRateSchedule::on_batch_end() {
  auto& groups = optimizer_.param_groups();
  for (std::size_t i = 0; i < momenta_.size() && i < groups.size(); ++i)
    hvdrun::set_momentum(groups[i].options(), momenta_[i]);
  momenta_.clear();
}

LearningRateSchedule warmup_schedule(torch::optim::Optimizer& optimizer, double initial_lr,
                                     int warmup_epochs, int steps_per_epoch,
                                     bool momentum_correction, const ProcessSet& process_set) {
  LearningRateOptions options;
  options.end_epoch = warmup_epochs;
  options.staircase = false;
  options.steps_per_epoch = steps_per_epoch;
  options.momentum_correction = momentum_correction;
  // Counted to the end of the batch, so that the last one of the warm-up has the whole rate.
  const auto multiplier = [ranks = hvdrun::ranks_of({{}, process_set, {}}), warmup_epochs,
                           steps_per_epoch](double epoch) {
    const double done = (epoch + 1.0 / steps_per_epoch) / warmup_epochs;
    return (done * (ranks - 1) + 1) / ranks;
  };
  return {optimizer, initial_lr, multiplier, options};
}

LearningRateSchedule exponential_schedule(torch::optim::Optimizer& optimizer, double initial_lr,
                                          double multiplier, LearningRateOptions options) {
  options.staircase = true;
  const auto power = [multiplier, start = options.start_epoch](double epoch) {
    return std::pow(multiplier, epoch - start);
  };
  return {optimizer, initial_lr, power, options};
}

EarlyStop::EarlyStop(const EarlyStopOptions& options) : options_(options) {
  if (options_.patience < 1)
    hvdrun::invalid_tensor("EarlyStop: patience is " + std::to_string(options_.patience) +
                           "; at least 1");
}

bool EarlyStop::update(double metric) {
  const double mean = metric_average(metric, options_.process_set);
  const double gain = options_.higher_is_better ? mean - best_ : best_ - mean;
  if (!std::isnan(mean) && (std::isnan(best_) || gain > options_.min_delta)) {
    best_ = mean;
    without_improvement_ = 0;
    return false;
  }
  ++without_improvement_;
  return without_improvement_ >= options_.patience;
}

}  // namespace hvd
