#include "worker/labs/train/training_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <iomanip>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>
#include <zlib.h>

#include <hvd/elastic.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/start_place.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/base/training_device.h"
#include "worker/labs/batches/dataset.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/models/parameter_count.h"
#include "worker/labs/models/sample_dropout.h"
#include "worker/labs/options/option_rows.h"
#include "worker/labs/options/word_options.h"
#include "worker/labs/report/run_outputs.h"
#include "worker/labs/report/score_sums.h"
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
        start_(start_place()),
        console_(options, (options.elastic ? start_.rank : hvd::rank()) != 0),
        checkpoints_(options, console_, progress_),
        outputs_(options),
        health_(options, console_),
        unread_(skips_bad(), console_) {
    progress_.seed = recipe_.seed;
  }

  void run() {
    if (options_.elastic) return run_elastic();
    require_same_options();
    device_ = agreed_device();
    checkpoints_.find();
    open_data();
    make_model();
    hvd::broadcast_parameters(*model_);
    make_optimizer();
    train();
  }

 private:
  // A process that is new prepares itself while the others train, so by itself. What must be the
  // same on all ranks is compared when it meets them. The state goes to those who lack it then.
  void run_elastic() {
    {
      const AloneAtFirst alone;
      require_same_options();
      checkpoints_.find();
      open_data();
      make_model();
    }
    hvd::init();
    {
      const AloneAtFirst alone;
      device_ = agreed_device();
      make_optimizer();
    }
    state_.emplace(model_.get(), optimizer_.get());
    state_->add("ranks at the start", start_ranks_)
        .add("epochs", progress_.epochs)
        .add("steps", progress_.steps)
        .add("on target", progress_.on_target)
        .add("best loss", progress_.best_loss)
        .add("without gain", progress_.without_gain)
        .add("seconds", progress_.seconds)
        .add("steps of the epoch", done_)
        .add("samples of the epoch", taken_)
        .add("score of the epoch", so_far_);
    const auto train_on = [this] {
      ranks_ = options_.keep_local_batch ? hvd::size() : static_cast<int>(start_ranks_);
      lr_ = recipe_.lr * lr_factor();
      // The rate that a commit has brought back is of as many ranks as there were then.
      if (options_.keep_local_batch) set_options(*optimizer_, recipe_, lr_);
      compare_later();
      console_.set_silent(hvd::rank() != 0);
      outputs_.drop_losses();
      train();
    };
    hvd::elastic::RunOptions options;
    options.overlap = true;
    hvd::elastic::run(*state_, train_on, options);
  }

  void open_data() {
    // In an elastic job that is before hvd::init().
    const bool expects_gpu =
        options_.elastic && options_.device != "cpu" && torch::cuda::is_available();
    const at::Device device = expects_gpu ? at::Device(at::kCUDA) : device_;
    data_.emplace(open_run_data(options_, info_, device, global_batch(), progress_.seed));
    for (const std::string& note : data_->notes) console_.warn(note);
  }

  void make_model() {
    // The same start on every rank, even if one was built with another generator.
    torch::manual_seed(recipe_.seed);
    ModelShape shape = options_.shape;
    if (info_.classes_of_data) shape.classes = data_->train->classes();
    model_ = info_.make(shape);
    agree(wrong_count(info_, shape, *model_), exit_failed);
    if (channels_last()) model_->to_channels_last();
    if (options_.sync_batch_norm)
      agree(model_->normalise_over_all_ranks()
                ? ""
                : "--sync-batch-norm: " + options_.model + " normalises no batches",
            exit_usage);
    const std::string left_out = take_word_vectors(*model_, options_, data_->vocabulary);
    if (!left_out.empty()) console_.warn(left_out);
    make_word_gradients_sparse(*model_, options_);
  }

  void make_optimizer() {
    if (options_.dtype == "fp64") model_->to(at::kDouble);
    model_->to(device_);
    lr_ = recipe_.lr * lr_factor();
    optimizer_ = hvdrun::make_optimizer(recipe_, trained_parameters(), lr_);
    // The checkpoint holds the options of its own run, perhaps of another number of ranks.
    if (checkpoints_.restore(*model_, *optimizer_)) set_options(*optimizer_, recipe_, lr_);
    checkpoints_.compare_data(*data_->train);
    speed_.emplace(options_.cudnn_search, device_.is_cuda(), gpu_reports(), console_);
  }

  // To its end, from where the progress stands.
  void train() {
    Dataset& train = *data_->train;
    Dataset& test = *data_->test;
    Dataset& validation = data_->validation ? *data_->validation : test;
    const auto steps = static_cast<int>(steps_of(train.size(), global_batch()));
    if (options_.keep_local_batch && taken_ > 0)
      done_ = static_cast<std::int64_t>(order_of_epoch(train).first(global_batch()));
    rates_.emplace(recipe_, *optimizer_, lr_, steps);
    if (done_ > 0)
      rates_->go_on_at(progress_.epochs, done_);
    else if (progress_.epochs > 0)
      rates_->go_on_after(progress_.epochs - 1);
    const bool again = std::exchange(has_begun_, true);
    outputs_.open(again || checkpoints_.is_own());
    if (again) {
      console_.note("going on with " + std::to_string(hvd::size()) + " ranks, from step " +
                    std::to_string(done_) + " of epoch " + std::to_string(progress_.epochs + 1) +
                    (options_.keep_local_batch ? new_rate() : ""));
    } else {
      print_header(train.size(), test.size());
      speed_->begin_run();
    }

    Trainer trainer(model_, *optimizer_, trainer_options());
    while (progress_.epochs < recipe_.epochs && steps_left() > 0 && !on_target() &&
           !stands_still()) {
      train_epoch(trainer, train, validation);
    }
    hvd::elastic::catch_up();  // there may have been no step left
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

  std::string new_rate() const {
    std::ostringstream text;
    text << ", at " << ranks() << " times the rate of one (" << lr_ << ")";
    return text.str();
  }

  bool skips_bad() const { return options_.data.bad_data == "skip"; }
  std::size_t batch_size() const { return static_cast<std::size_t>(recipe_.batch_size); }
  // In an elastic job those at its start, unless the batch of a rank stays.
  int ranks() const { return options_.elastic ? ranks_ : hvd::size(); }
  // Ranks that come may be more than the data are enough for.
  std::size_t global_batch() const {
    const std::size_t all = batch_size() * static_cast<std::size_t>(ranks());
    return data_ && options_.keep_local_batch ? std::min(all, data_->train->size()) : all;
  }
  EpochSampler order_of_epoch(const Dataset& train) const {
    return {train.size(), progress_.seed, static_cast<std::uint64_t>(progress_.epochs),
            options_.keep_local_batch ? static_cast<std::size_t>(taken_) : 0};
  }
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
    if (!options_.use_adasum) return ranks();
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
    const auto epoch = static_cast<std::uint64_t>(progress_.epochs);
    const EpochSampler order = order_of_epoch(train);
    // A stream of its own per epoch and rank, so a resumed run drops what an unbroken one does.
    if (!options_.elastic)
      torch::manual_seed(SplitMix(progress_.seed, epoch << 32 | rank()).next());
    const std::size_t whole = order.steps(global_batch());
    rates_->begin_epoch(progress_.epochs);
    first_ = static_cast<std::size_t>(done_);
    const auto before = progress_.steps - done_;
    epoch_ = {progress_.epochs + 1, first_ + std::min(whole - first_, steps_left()), train.size(),
              std::vector<double>(first_), &order};
    console_.begin_epoch(epoch_.number, epoch_.steps);
    started_ = std::chrono::steady_clock::now();
    const std::size_t full = train.size() / global_batch();
    speed_->begin_epoch(epoch_.steps - first_, full > first_ ? full - first_ : 0, started_);
    Trainer::StepCallbacks callbacks{[this](std::size_t step) { before_step(step); },
                                     [this] { after_step(); },
                                     [this](const Trainer::StepResult& result) { report(result); }};
    if (state_) callbacks.commit_every = static_cast<std::size_t>(options_.commit_steps);
    callbacks.commit = [this](std::size_t done, const std::function<Score()>& take) {
      so_far_.add(take());
      commit(static_cast<std::int64_t>(done));
    };
    const Score score = so_far_.with(
        trainer.train_epoch(train, order, global_batch(), epoch_.steps, callbacks, first_));
    const auto end = std::chrono::steady_clock::now();
    const std::chrono::duration<double> last = end - started_;
    const double seconds = so_far_.seconds + last.count();
    const Throughput::Epoch speed = speed_->end_epoch(end);
    progress_.seconds += last.count();
    health_.end_epoch(epoch_.number, progress_.steps - before, *model_);
    console_.end_epoch(score, speed, seconds, progress_.seconds,
                       rates_->change() ? std::optional<double>(rates_->now()) : std::nullopt,
                       longest_wait(train));
    unread_.tell(score.bad, "epoch " + std::to_string(progress_.epochs + 1), "replaced by others");
    // --max-steps cut it short: it is told of, but a resumed run would begin it anew.
    const bool cut = progress_.steps - before < static_cast<std::int64_t>(whole);
    if (!cut) ++progress_.epochs;
    EpochResult result{progress_.epochs + (cut ? 1 : 0),
                       progress_.steps,
                       score,
                       seconds,
                       speed.per_second,
                       rates_->now(),
                       std::nullopt};
    if (recipe_.target_accuracy > 0 || recipe_.stops_on_loss || outputs_.wants_validation())
      result.validation = validate(trainer, validation);
    outputs_.add_epoch(result);
    if (!cut && health_.is_sound())
      outputs_.save(progress_.epochs, [this] { return checkpoints_.encode(*model_, *optimizer_); });
    so_far_ = {};
    started_ = std::chrono::steady_clock::now();
    commit(0);
    so_far_ = {};
  }

  // After so many steps of the epoch. Does not return where ranks are let in.
  void commit(std::int64_t done) {
    done_ = done;
    taken_ = done == 0
                 ? 0
                 : static_cast<std::int64_t>(
                       epoch_.order->step(static_cast<std::size_t>(done) - 1, global_batch()).end);
    if (!state_) return;
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> since = now - std::exchange(started_, now);
    progress_.seconds += since.count();
    so_far_.seconds += since.count();
    try {
      state_->commit();
      tell_wait();
    } catch (const hvd::elastic::MembersChange&) {
      outputs_.write_losses();
      throw;
    }
    outputs_.write_losses();
  }

  // The wait for the state of the ranks that have come last.
  void tell_wait() {
    const double waited = hvd::elastic::state_wait();
    if (waited == waited_) return;
    waited_ = waited;
    std::ostringstream text;
    text << std::fixed << std::setprecision(3) << waited;
    console_.note("the new ranks have the state; the others have waited " + text.str() +
                  " s for it");
  }

  static std::uint64_t rank() { return static_cast<std::uint64_t>(hvd::rank()); }

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
    // A step may be repeated by other ranks.
    if (options_.elastic && options_.shape.dropout > 0)
      draw_dropout_by_sample(
          epoch_.order->draws(step, global_batch(), hvd::elastic::contributor_rank(),
                              hvd::elastic::contributors()),
          device_);
    rates_->begin_step(step);
    epoch_.rates.push_back(rates_->now());
    speed_->before_step(step - first_);
  }

  void after_step() {
    rates_->end_step();
    ++progress_.steps;
  }

  void report(const Trainer::StepResult& result) {
    const std::size_t done = result.step + 1;
    speed_->after_step(done - first_, result.samples, std::chrono::steady_clock::now(),
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
    if (outputs_.wants_losses()) outputs_.add_loss(loss, state_.has_value());
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
    const EpochSampler* order = nullptr;
  };

  const TrainOptions& options_;
  const Recipe& recipe_;
  const ModelInfo& info_;
  const StartPlace start_;
  // The job's, told by the others where this process is new: it may have found more of them.
  std::int64_t start_ranks_ = start_.size;
  int ranks_ = start_.size;  // that the global batch is of
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
  std::optional<DataSets> data_;
  bool has_begun_ = false;
  double waited_ = 0;       // that has been told
  std::int64_t done_ = 0;   // steps of the epoch, when it was committed
  std::int64_t taken_ = 0;  // its samples, likewise
  std::size_t first_ = 0;   // step of the epoch that this part of it began with
  ScoreSums so_far_;
  std::chrono::steady_clock::time_point started_;  // this part of it
  std::optional<hvd::elastic::TorchState> state_;  // of an elastic job
};

}  // namespace

void train_model(const TrainOptions& options) { TrainingRun(options).run(); }

}  // namespace hvdrun
