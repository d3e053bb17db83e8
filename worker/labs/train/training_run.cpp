#include "worker/labs/train/training_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>
#include <zlib.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/base/training_device.h"
#include "worker/labs/batches/dataset.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/models/parameter_count.h"
#include "worker/labs/options/option_rows.h"
#include "worker/labs/options/word_options.h"
#include "worker/labs/report/run_outputs.h"
#include "worker/labs/report/train_console.h"
#include "worker/labs/train/learning_rates.h"
#include "worker/labs/train/optimizers.h"
#include "worker/labs/train/run_checkpoints.h"
#include "worker/labs/train/run_data.h"
#include "worker/labs/train/run_health.h"
#include "worker/labs/train/run_speed.h"
#include "worker/labs/train/trainer.h"
#include "worker/labs/train/unread_samples.h"

namespace hvdrun {
namespace {

// Steps of a GPU whose losses are read at once: often enough for a progress bar.
constexpr std::size_t kGpuReports = 20;

// The one conductor of a training, hence its many includes: each part knows its own concept, and
// none of the others.
class TrainingRun {
 public:
  explicit TrainingRun(const TrainOptions& options)
      : options_(options),
        recipe_(options.recipe),
        info_(*find_model(options.model)),
        console_(options, hvd::rank() != 0),
        checkpoints_(options, console_, progress_),
        outputs_(options),
        health_(options, console_),
        unread_(skips_bad(), console_) {
    progress_.seed = recipe_.seed;
  }

  void run() {
    require_same_options();
    device_ = agreed_device();
    speed_.emplace(options_.cudnn_search, device_.is_cuda(), gpu_reports(), console_);
    checkpoints_.find();
    const DataSets data = open_run_data(options_, info_, device_, global_batch(), progress_.seed);
    for (const std::string& note : data.notes) console_.warn(note);
    Dataset& train = *data.train;
    Dataset& test = *data.test;
    Dataset& validation = data.validation ? *data.validation : test;

    // The same start on every rank, even if one was built with another generator.
    torch::manual_seed(recipe_.seed);
    ModelShape shape = options_.shape;
    if (info_.classes_of_data) shape.classes = train.classes();
    model_ = info_.make(shape);
    agree(wrong_count(info_, shape, *model_), exit_failed);
    if (channels_last()) model_->to_channels_last();
    if (options_.sync_batch_norm)
      agree(model_->normalise_over_all_ranks()
                ? ""
                : "--sync-batch-norm: " + options_.model + " normalises no batches",
            exit_usage);
    const std::string left_out = take_word_vectors(*model_, options_, data.vocabulary);
    if (!left_out.empty()) console_.warn(left_out);
    make_word_gradients_sparse(*model_, options_);
    hvd::broadcast_parameters(*model_);
    if (options_.dtype == "fp64") model_->to(at::kDouble);
    model_->to(device_);
    lr_ = recipe_.lr * lr_factor();
    optimizer_ = make_optimizer(recipe_, trained_parameters(), lr_);
    // The checkpoint holds the options of its own run, perhaps of another number of ranks.
    if (checkpoints_.restore(*model_, *optimizer_)) set_options(*optimizer_, recipe_, lr_);
    checkpoints_.compare_data(train);
    const auto steps = static_cast<int>(steps_of(train.size(), batch_size(), hvd::size()));
    rates_.emplace(recipe_, *optimizer_, lr_, steps);
    if (progress_.epochs > 0) rates_->go_on_after(progress_.epochs - 1);
    outputs_.open();
    print_header(train.size(), test.size());
    speed_->begin_run();

    Trainer trainer(model_, *optimizer_, trainer_options());
    while (progress_.epochs < recipe_.epochs && steps_left() > 0 && !on_target() &&
           !stands_still()) {
      train_epoch(trainer, train, validation);
    }
    const Score score = trainer.evaluate(test);
    console_.test(score);
    health_.judge("loss of the test " + std::string(info_.data.samples), score);
    unread_.tell(score.bad, "test", "left out");
    if (info_.reports_classes || outputs_.wants_report()) {
      const ConfusionMatrix matrix = trainer.confusion(test);
      if (info_.reports_classes) console_.report(matrix, test.class_names());
      outputs_.write_report(matrix, test.class_names());
    }
    outputs_.close();
    unread_.judge(score);
    health_.end_run();
  }

 private:
  bool skips_bad() const { return options_.data.bad_data == "skip"; }
  std::size_t batch_size() const { return static_cast<std::size_t>(recipe_.batch_size); }
  std::size_t global_batch() const { return batch_size() * static_cast<std::size_t>(hvd::size()); }
  bool on_target() const {
    return recipe_.target_accuracy > 0 && progress_.on_target >= recipe_.patience;
  }

  bool stands_still() const {
    return recipe_.stops_on_loss && progress_.without_gain >= recipe_.patience;
  }

  std::vector<torch::Tensor> trained_parameters() const {
    std::vector<torch::Tensor> parameters;
    for (const torch::Tensor& parameter : model_->parameters())
      if (parameter.requires_grad()) parameters.push_back(parameter);
    return parameters;
  }

  // The rule of Horovod's example: Adasum finds out itself how far the ranks' steps add up. Its
  // Adasum on GPUs adds within a host, hence the factor there.
  double lr_factor() const {
    if (!options_.use_adasum) return hvd::size();
    return device_.is_cuda() ? hvd::local_size() : 1;
  }

  bool channels_last() const { return options_.data_format == "NHWC"; }

  TrainerOptions trainer_options() const {
    TrainerOptions options;
    options.device = device_;
    options.test_batch_size = static_cast<std::size_t>(recipe_.test_batch_size);
    if (device_.is_cuda()) options.report_every = gpu_reports();
    if (options_.use_adasum) options.reduction.op = hvd::ReduceOp::adasum;
    if (options_.dtype == "fp64") options.type = at::kDouble;
    if (options_.dtype == "bf16") options.type = at::kBFloat16;
    if (options_.dtype == "fp16") options.type = at::kHalf;
    options.augment = options_.augment;
    options.replaces_bad = skips_bad();
    options.channels_last = channels_last();
    options.leave_out_not_finite = health_.leaves_out();
    options.trace_nan = options_.trace_nan;
    if (options_.sparse_embedding) options.reduction.sparse = model_->word_parameters();
    if (options_.fp16_allreduce) options.reduction.compression = hvd::Compression::fp16;
    options.reduction.named_parameters = model_->named_parameters();
    return options;
  }

  // Lines of the log are told in time.
  std::size_t gpu_reports() const {
    std::size_t every = kGpuReports;
    while (static_cast<std::size_t>(recipe_.log_interval) % every != 0) --every;
    return every;
  }

  std::size_t steps_left() const {
    if (options_.max_steps == 0) return std::numeric_limits<std::size_t>::max();
    return static_cast<std::size_t>(
        std::max<std::int64_t>(0, options_.max_steps - progress_.steps));
  }

  // Files that are written or read decide which collectives a rank calls.
  void require_same_options() const {
    const std::string text = agreed_options(options_);
    require_same(static_cast<std::int64_t>(
                     crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size())),
                 "the options", exit_usage);
  }

  at::Device agreed_device() const {
    std::string error;
    const at::Device device = choose_device(options_.device, error);
    if (error.empty() && options_.dtype == "fp16" && device.is_cpu())
      error = "--dtype fp16 needs a GPU; bf16 runs on a CPU";
    agree(error, exit_usage);
    require_same(std::int64_t{device.is_cuda()}, "the devices (CPU, GPU)", exit_usage);
    return device;
  }

  void print_header(std::size_t train_samples, std::size_t test_samples) {
    RunFacts facts;
    facts.ranks = hvd::size();
    facts.parameters = count_parameters(*model_);
    facts.train_samples = train_samples;
    facts.test_samples = test_samples;
    facts.lr_factor = lr_factor();
    facts.on_gpu = device_.is_cuda();
    console_.header(facts, progress_, checkpoints_.path());
  }

  void train_epoch(Trainer& trainer, Dataset& train, Dataset& validation) {
    // A stream of its own per epoch and rank, so a resumed run drops what an unbroken one does.
    const auto epoch = static_cast<std::uint64_t>(progress_.epochs);
    const auto rank = static_cast<std::uint64_t>(hvd::rank());
    torch::manual_seed(SplitMix(progress_.seed, epoch << 32 | rank).next());
    const EpochSampler order(train.size(), progress_.seed, epoch);
    const std::size_t whole = order.steps(batch_size(), hvd::size());
    rates_->begin_epoch(progress_.epochs);
    const auto before = progress_.steps;
    epoch_ = {progress_.epochs + 1, std::min(whole, steps_left()), train.size(), {}};
    console_.begin_epoch(epoch_.number, epoch_.steps);
    const auto start = std::chrono::steady_clock::now();
    speed_->begin_epoch(epoch_.steps, train.size() / global_batch(), start);
    const Score score = trainer.train_epoch(
        train, order, batch_size(), steps_left(),
        {[this](std::size_t step) { before_step(step); }, [this] { after_step(); },
         [this](const Trainer::StepResult& result) { report(result); }});
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> seconds = end - start;
    const Throughput::Epoch speed = speed_->end_epoch(end);
    progress_.seconds += seconds.count();
    health_.end_epoch(epoch_.number, progress_.steps - before, *model_);
    console_.end_epoch(score, speed, seconds.count(), progress_.seconds,
                       rates_->change() ? std::optional<double>(rates_->now()) : std::nullopt,
                       longest_wait(train));
    unread_.tell(score.bad, "epoch " + std::to_string(progress_.epochs + 1), "replaced by others");
    // --max-steps cut it short: it is told of, but a resumed run would begin it anew.
    const bool cut = progress_.steps - before < static_cast<std::int64_t>(whole);
    if (!cut) ++progress_.epochs;
    EpochResult result{progress_.epochs + (cut ? 1 : 0),
                       progress_.steps,
                       score,
                       seconds.count(),
                       speed.per_second,
                       rates_->now(),
                       std::nullopt};
    if (recipe_.target_accuracy > 0 || recipe_.stops_on_loss || outputs_.wants_validation())
      result.validation = validate(trainer, validation);
    outputs_.add_epoch(result);
    if (cut || !health_.is_sound()) return;
    outputs_.save(progress_.epochs, [this] { return checkpoints_.encode(*model_, *optimizer_); });
  }

  // The rank with the least of it holds up the others.
  static std::optional<double> longest_wait(const Dataset& data) {
    std::optional<double> waited = data.waited();
    if (waited) hvd::allreduce(&*waited, &*waited, 1, hvd::ReduceOp::max);
    return waited;
  }

  // All ranks have the same score, so all end in the same epoch.
  Score validate(Trainer& trainer, Dataset& validation) {
    Score score = trainer.evaluate(validation, static_cast<int>(recipe_.validation_passes));
    console_.validation(score);
    health_.judge("validation loss of epoch " + std::to_string(epoch_.number), score);
    unread_.tell(score.bad, "validation", "left out");
    const bool better = score.loss < progress_.best_loss;
    if (better) progress_.best_loss = score.loss;
    progress_.without_gain = better ? 0 : progress_.without_gain + 1;
    if (stands_still()) console_.stands_still(progress_.without_gain);
    if (recipe_.target_accuracy <= 0) return score;
    progress_.on_target = score.accuracy > recipe_.target_accuracy ? progress_.on_target + 1 : 0;
    if (on_target()) console_.target_reached(progress_.on_target);
    return score;
  }

  void before_step(std::size_t step) {
    rates_->begin_step(step);
    epoch_.rates.push_back(rates_->now());
    speed_->before_step(step);
  }

  void after_step() {
    rates_->end_step();
    ++progress_.steps;
  }

  void report(const Trainer::StepResult& result) {
    const std::size_t done = result.step + 1;
    speed_->after_step(done, result.samples, std::chrono::steady_clock::now(),
                       [this, done] { return steps_of_run_left(done); });
    health_.saw({static_cast<std::int64_t>(done), epoch_.number, hvd::rank(), result.loss,
                 epoch_.rates[result.step], result.origin},
                result.left_out);
    double loss = result.loss;
    if (outputs_.wants_losses() || console_.tells(done) || done % kGpuReports == 0) {
      std::array<double, 2> means{loss, health_.has_news() ? 1.0 : 0.0};
      hvd::allreduce(means.data(), means.data(), means.size(), hvd::ReduceOp::average);
      loss = means[0];
      if (means[1] > 0) health_.tell();
    }
    console_.step(done, loss, speed_->of_steps());
    if (outputs_.wants_losses()) outputs_.add_loss(loss);
  }

  // After so many steps of this epoch.
  std::size_t steps_of_run_left(std::size_t done) const {
    const auto epochs = static_cast<std::size_t>(recipe_.epochs - progress_.epochs);
    const std::size_t all = epochs * ((epoch_.samples + global_batch() - 1) / global_batch());
    return std::min(all > done ? all - done : 0, steps_left());
  }

  // The one that goes on.
  struct Epoch {
    std::int64_t number = 0;  // from 1
    std::size_t steps = 0;
    std::size_t samples = 0;
    std::vector<double> rates;  // of each step so far
  };

  const TrainOptions& options_;
  const Recipe& recipe_;
  const ModelInfo& info_;
  TrainConsole console_;
  Progress progress_;
  RunCheckpoints checkpoints_;
  RunOutputs outputs_;
  RunHealth health_;
  UnreadSamples unread_;
  std::optional<RunSpeed> speed_;
  Epoch epoch_;
  at::Device device_ = at::kCPU;
  std::shared_ptr<LabModel> model_;
  double lr_ = 0;  // of all ranks
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<LearningRates> rates_;
};

}  // namespace

void train_model(const TrainOptions& options) { TrainingRun(options).run(); }

}  // namespace hvdrun
