#include "worker/labs/train/trainer.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include "worker/labs/base/training_device.h"
#include "worker/labs/batches/bad_data.h"
#include "worker/labs/models/failed_layer.h"

namespace hvdrun {
namespace {

// For the timeline.
class Told {
 public:
  explicit Told(hvd::Activity activity) : activity_(activity) {
    hvd::timeline_begin(lane(), activity_);
  }
  Told(const Told&) = delete;
  Told& operator=(const Told&) = delete;
  ~Told() { hvd::timeline_end(lane(), activity_); }

 private:
  static const std::string& lane() {
    static const std::string name = "train";
    return name;
  }
  const hvd::Activity activity_;
};

// In the first step of a rank that is new in an elastic job this is another one than its rank.
StepPlace step_place() { return {hvd::elastic::contributor_rank(), hvd::elastic::contributors()}; }

// On the device, where they are not waited for before all are there.
class Sums {
 public:
  void add(const at::Tensor& loss, const at::Tensor& predicted, const at::Tensor& labels) {
    const auto samples = static_cast<double>(labels.size(0));
    add_to(loss_, loss.detach().to(at::kDouble) * samples);
    add_to(correct_, predicted.eq(labels).sum());
    samples_ += samples;
  }

  // Collective. `bad`: of this rank.
  Score over_all_ranks(const BadSamples& bad) const {
    std::array<double, 3> sums{value_of(loss_), value_of(correct_), samples_};
    hvd::allreduce(sums.data(), sums.data(), sums.size(), hvd::ReduceOp::sum);
    Score score;
    score.bad = bad_of_all_ranks(bad);
    if (sums[2] == 0) return score;
    score.loss = sums[0] / sums[2];
    score.accuracy = sums[1] / sums[2];
    score.samples = static_cast<std::size_t>(sums[2]);
    return score;
  }

 private:
  static void add_to(at::Tensor& sum, const at::Tensor& more) {
    sum = sum.defined() ? sum.add_(more) : more;
  }
  static double value_of(const at::Tensor& sum) { return sum.defined() ? sum.item<double>() : 0; }

  at::Tensor loss_;
  at::Tensor correct_;
  double samples_ = 0;
};

// Results of steps that have been queued.
class Reports {
 public:
  // `result` has all but the loss, in whose place is the share of it.
  void add(Trainer::StepResult result, const at::Tensor& loss) {
    results_.push_back(std::move(result));
    losses_.push_back(loss.detach());
  }

  void tell(const std::function<void(const Trainer::StepResult&)>& report) {
    if (results_.empty()) return;
    const at::Tensor losses = at::stack(losses_).to(at::kCPU, at::kDouble);
    for (std::size_t i = 0; i < results_.size(); ++i) {
      if (results_[i].loss != 0)
        results_[i].loss *= losses[static_cast<std::int64_t>(i)].item<double>();
      report(results_[i]);
    }
    results_.clear();
    losses_.clear();
  }

 private:
  std::vector<Trainer::StepResult> results_;  // `loss` is the share of it
  std::vector<at::Tensor> losses_;
};

// Buffers that a step that is left out must not have changed.
class BuffersBefore {
 public:
  explicit BuffersBefore(std::vector<at::Tensor> buffers) : buffers_(std::move(buffers)) {
    for (const at::Tensor& buffer : buffers_) values_.push_back(buffer.clone());
  }
  void put_back() const {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(values_[i]);
  }

 private:
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> values_;
};

// From 2.4 on LibTorch has one set of functions for all devices, and warns of the others each time.
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
void set_autocast(bool on) {
  for (const auto device : {at::kCPU, at::kCUDA}) at::autocast::set_autocast_enabled(device, on);
}
void set_autocast_types(at::ScalarType type) {
  if (type == at::kBFloat16) at::autocast::set_autocast_dtype(at::kCPU, type);
  at::autocast::set_autocast_dtype(at::kCUDA, type);
}
#else
void set_autocast(bool on) {
  at::autocast::set_cpu_enabled(on);
  at::autocast::set_enabled(on);
}
void set_autocast_types(at::ScalarType type) {
  if (type == at::kBFloat16) at::autocast::set_autocast_cpu_dtype(type);
  at::autocast::set_autocast_gpu_dtype(type);
}
#endif

// LibTorch's choice of the operations that calculate in 16 bits, for as long as it lives.
class Autocast {
 public:
  explicit Autocast(at::ScalarType type) : on_(type != at::kFloat) {
    if (!on_) return;
    set_autocast(true);
    set_autocast_types(type);
    at::autocast::increment_nesting();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (!on_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    set_autocast(false);
  }

 private:
  bool on_;
};

}  // namespace

Trainer::Trainer(std::shared_ptr<LabModel> model, torch::optim::Optimizer& optimizer,
                 const TrainerOptions& options)
    : model_(std::move(model)), options_(options), optimizer_(optimizer, options.reduction) {
  if (options_.type == at::kHalf) scaler_.emplace();
  if (options_.trace_nan) trace_.emplace(*model_);
}

torch::Tensor Trainer::forward(const torch::Tensor& inputs) {
  const Told told(hvd::Activity::forward);
  torch::Tensor images = options_.channels_last && inputs.dim() == 4
                             ? inputs.contiguous(at::MemoryFormat::ChannelsLast)
                             : inputs;
  if (options_.type == at::kDouble && images.is_floating_point()) images = images.to(at::kDouble);
  const Autocast autocast(options_.type == at::kDouble ? at::kFloat : options_.type);
  const torch::Tensor output = checked_forward(*model_, images);
  return options_.type == at::kDouble ? output : output.to(at::kFloat);
}

bool Trainer::backward_and_step(const torch::Tensor& loss, bool counts) {
  (scaler_ ? scaler_->scale(loss) : loss).backward();
  if (!options_.reduction.sparse.empty()) {
    // Not every optimizer takes them as they have travelled.
    optimizer_.synchronize();
    for (const at::Tensor& parameter : options_.reduction.sparse)
      parameter.mutable_grad() = parameter.grad().to_dense();
  }
  if (options_.leave_out_not_finite && !is_finite_everywhere(loss, counts)) return false;
  if (scaler_)
    scaler_->step(optimizer_);
  else
    optimizer_.step();
  return true;
}

// Reduced gradients are the same on all ranks, but with adasum; losses are not.
bool Trainer::is_finite_everywhere(const torch::Tensor& loss, bool counts) {
  const torch::NoGradGuard no_grad;
  at::Tensor finite = at::isfinite(counts ? loss : at::zeros_like(loss)).all();
  optimizer_.synchronize();
  // Scaled ones overflow now and then: the scaler leaves those out.
  if (!scaler_) {
    for (const auto& group : optimizer_.optimizer().param_groups())
      for (const at::Tensor& parameter : group.params()) {
        const at::Tensor& gradient = parameter.grad();
        if (!gradient.defined()) continue;
        finite = finite.logical_and(
            at::isfinite(gradient.is_sparse() ? gradient._values() : gradient).all());
      }
  }
  double bad = finite.item<bool>() ? 0 : 1;  // one read of the device
  hvd::allreduce(&bad, &bad, 1, hvd::ReduceOp::max);
  return bad == 0;
}

std::vector<at::Tensor> Trainer::running_buffers() const {
  std::vector<at::Tensor> running;
  for (const at::Tensor& buffer : model_->buffers())
    if (buffer.is_floating_point()) running.push_back(buffer);
  return running;
}

std::optional<Batch> Trainer::next(Dataset& data) const {
  const Told told(hvd::Activity::data);
  std::optional<Batch> batch = data.next();
  if (!batch || options_.device.is_cpu()) return batch;
  return Batch{on_device(batch->inputs, options_.device),
               on_device(batch->labels, options_.device)};
}

torch::Tensor Trainer::weights_of(const Dataset& data) const {
  const std::vector<double> weights = data.class_weights();
  return weights.empty() ? torch::Tensor()
                         : torch::tensor(weights, output_type()).to(options_.device);
}

Score Trainer::train_epoch(Dataset& data, const EpochSampler& order, std::size_t global,
                           std::size_t end, const StepCallbacks& callbacks, std::size_t first) {
  model_->train();
  Sums sums;
  const auto take = [&sums] { return std::exchange(sums, {}).over_all_ranks({}); };
  const std::size_t steps = std::min(order.steps(global), end);
  const torch::Tensor weights = weights_of(data);
  Pass pass = order.pass(global, end, hvd::rank(), hvd::size(), first, step_place());
  pass.augment = options_.augment;
  if (options_.replaces_bad) pass.on_bad = OnBadSample::replace;
  data.begin(std::move(pass));
  Reports reports;
  std::optional<Batch> ahead;
  for (std::size_t step = first; step < steps; ++step) {
    if (callbacks.before) callbacks.before(step);
    const Batch batch = ahead ? *std::exchange(ahead, std::nullopt) : next(data).value();
    optimizer_.zero_grad(/*set_to_none=*/true);
    if (trace_) trace_->begin_step(batch.inputs);
    const BuffersBefore before(options_.leave_out_not_finite ? running_buffers()
                                                             : std::vector<at::Tensor>());
    const torch::Tensor output = forward(batch.inputs);
    const torch::Tensor loss = checked_loss(*model_, output, batch.labels, weights, data.classes());
    const std::size_t of_all = order.step(step, global).size();
    const StepPlace place = step_place();
    const double share = order.share(step, global, place.rank, place.size);
    const torch::Tensor shared = share == 1 ? loss : loss * share;
    const torch::Tensor penalty = model_->penalty();
    const bool stepped =
        backward_and_step(penalty.defined() ? shared + penalty : shared, place.rank >= 0);
    if (!stepped) before.put_back();
    hvd::elastic::catch_up();  // after a step that is left out
    // While the GPU is at this step, whose loss the host may wait for below.
    if (options_.device.is_cuda() && step + 1 < steps) ahead = next(data);
    const bool left_out = options_.leave_out_not_finite && !stepped;
    if (!left_out && share > 0) sums.add(loss, model_->predict(output.detach()), batch.labels);
    if (callbacks.after) callbacks.after();
    const bool commits =
        callbacks.commit_every > 0 && (step + 1) % callbacks.commit_every == 0 && step + 1 < steps;
    if (callbacks.report) {
      // Whoever averages it divides by all ranks.
      const double told = share * hvd::size() / place.size;
      reports.add({step, told, of_all, left_out, trace_ ? trace_->found() : std::string()}, loss);
      if ((step + 1) % options_.report_every == 0 || step + 1 == steps || commits)
        reports.tell(callbacks.report);
    }
    if (commits) callbacks.commit(step + 1, take);
  }
  average_buffers();
  return sums.over_all_ranks(data.bad());
}

void Trainer::average_buffers() {
  const std::vector<at::Tensor> running = running_buffers();
  if (running.empty() || hvd::size() == 1) return;
  const torch::NoGradGuard no_grad;
  const std::vector<at::Tensor> averages = hvd::grouped_allreduce(running);
  for (std::size_t i = 0; i < running.size(); ++i) running[i].copy_(averages[i]);
}

void Trainer::begin_test(Dataset& data, int part) const {
  Pass pass = shard_pass(data.size(), options_.test_batch_size, part, hvd::size());
  pass.on_bad = OnBadSample::leave_out;
  data.begin(std::move(pass));
}

Score Trainer::evaluate(Dataset& data, int passes) {
  const torch::NoGradGuard no_grad;
  model_->eval();
  Sums sums;
  BadSamples bad;
  const torch::Tensor weights = weights_of(data);
  for (int pass = 0; pass < passes; ++pass) {
    begin_test(data, (hvd::rank() + pass) % hvd::size());
    while (const std::optional<Batch> batch = next(data)) {
      const torch::Tensor output = forward(batch->inputs);
      sums.add(checked_loss(*model_, output, batch->labels, weights, data.classes()),
               model_->predict(output), batch->labels);
    }
    // All ranks together have had all samples: further passes meet the same ones again.
    if (pass == 0) bad = data.bad();
  }
  return sums.over_all_ranks(bad);
}

ConfusionMatrix Trainer::confusion(Dataset& data) {
  const torch::NoGradGuard no_grad;
  model_->eval();
  ConfusionMatrix matrix(static_cast<std::size_t>(data.classes()));
  begin_test(data, hvd::rank());
  while (const std::optional<Batch> batch = next(data)) {
    const torch::Tensor taken = model_->predict(forward(batch->inputs)).to(at::kCPU);
    const torch::Tensor labels = batch->labels.to(at::kCPU);
    for (std::int64_t i = 0; i < taken.size(0); ++i) {
      const auto for_class = static_cast<std::size_t>(taken[i].item<std::int64_t>());
      // A model may have more classes than the data.
      if (for_class < matrix.classes)
        ++matrix.at(static_cast<std::size_t>(labels[i].item<std::int64_t>()), for_class);
    }
  }
  hvd::allreduce(matrix.counts.data(), matrix.counts.data(), matrix.counts.size(),
                 hvd::ReduceOp::sum);
  return matrix;
}

}  // namespace hvdrun
