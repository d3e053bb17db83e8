#include "worker/labs/training_run.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>
#include <zlib.h>

#include "worker/data/split_mix.h"
#include "worker/data/whole_file.h"
#include "worker/labs/agreement.h"
#include "worker/labs/checkpoint.h"
#include "worker/labs/dataset.h"
#include "worker/labs/describe.h"
#include "worker/labs/epoch_records.h"
#include "worker/labs/exit_codes.h"
#include "worker/labs/optimizers.h"
#include "worker/labs/option_rows.h"
#include "worker/labs/trainer.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kMaxCheckpoint = std::uint64_t{4} << 30;

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

class TrainingRun {
 public:
  explicit TrainingRun(const TrainOptions& options)
      : options_(options), recipe_(options.recipe), info_(*find_model(options.model)) {}

  void run() {
    require_same_options();
    const DataSets data = open_data();
    Dataset& train = *data.train;
    Dataset& test = *data.test;
    require_same_data(train, "training");
    require_same_data(test, "test");
    const std::size_t global_batch = batch_size() * static_cast<std::size_t>(hvd::size());
    agree(train.size() < global_batch
              ? std::to_string(train.size()) + " training " + info_.data.samples +
                    " are fewer than one step takes (" + std::to_string(global_batch) +
                    "); lower --batch-size"
              : "",
          exit_usage);

    // The same start on every rank, even if one was built with another generator.
    torch::manual_seed(options_.seed);
    model_ = info_.make(options_.shape);
    hvd::broadcast_parameters(*model_);
    lr_ = recipe_.lr * hvd::size();
    optimizer_ = make_optimizer(recipe_.optimizer, model_->parameters(), lr_, recipe_.momentum);
    progress_.seed = options_.seed;
    if (!options_.resume.empty()) resume();
    make_schedules(static_cast<int>(train.size() / global_batch));
    open_loss_log();
    open_records();
    print_header(train.size(), test.size());

    Trainer trainer(model_, *optimizer_);
    while (progress_.epochs < recipe_.epochs && steps_left() > 0 && !on_target()) {
      train_epoch(trainer, train, test);
    }
    const Score score = trainer.evaluate(test);
    if (hvd::rank() == 0) {
      std::printf("test accuracy %.2f %% (loss %.4f)\n", 100 * score.accuracy, score.loss);
    }
    close_loss_log();
  }

 private:
  std::size_t batch_size() const { return static_cast<std::size_t>(recipe_.batch_size); }
  bool on_target() const {
    return recipe_.target_accuracy > 0 && progress_.on_target >= recipe_.patience;
  }

  std::size_t steps_left() const {
    if (options_.max_steps == 0) return std::numeric_limits<std::size_t>::max();
    return static_cast<std::size_t>(
        std::max<std::int64_t>(0, options_.max_steps - progress_.steps));
  }

  // Whether a file is written or read decides which collectives a rank calls.
  void require_same_options() const {
    const std::string text = agreed_options(options_);
    require_same(static_cast<std::int64_t>(
                     crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size())),
                 "the options", exit_usage);
  }

  DataSets open_data() const {
    std::string error;
    std::optional<DataSets> data = info_.data.open(options_.data, error);
    agree(error, exit_no_input);
    return std::move(*data);
  }

  void require_same_data(const Dataset& data, const char* which) const {
    require_same(
        data.checksum(),
        std::string("the ") + which + " " + info_.data.samples + " in " + options_.data.directory,
        exit_no_input);
  }

  // After a resumed checkpoint has been read: the first batch of an epoch sets the rate.
  void make_schedules(int steps_per_epoch) {
    const auto warmup = static_cast<int>(recipe_.warmup_epochs);
    if (warmup > 0)
      schedules_.push_back(hvd::warmup_schedule(*optimizer_, lr_, warmup, steps_per_epoch));
    if (recipe_.drops.empty()) return;
    hvd::LearningRateOptions after_warmup;
    after_warmup.start_epoch = warmup;
    schedules_.emplace_back(
        *optimizer_, lr_, [this](double epoch) { return recipe_.factor(epoch); }, after_warmup);
  }

  // Rank 0 reads; the bytes go to everybody, and with them momentum and all that is kept besides.
  void resume() {
    std::string bytes;
    std::string error;
    if (hvd::rank() == 0) {
      bytes = read_whole_file(options_.resume, kMaxCheckpoint, error).value_or("");
    }
    agree(error, exit_no_input);
    broadcast_bytes(bytes);
    if (!decode_checkpoint(bytes, {options_.model, recipe_.optimizer}, *model_, *optimizer_,
                           progress_, error)) {
      error.insert(0, options_.resume + ": ");
    }
    agree(error, exit_no_input);
    // The checkpoint holds the options of its own run, perhaps of another number of ranks.
    for (auto& group : optimizer_->param_groups()) {
      group.options().set_lr(lr_);
      if (auto* sgd = dynamic_cast<torch::optim::SGDOptions*>(&group.options()))
        sgd->momentum(recipe_.momentum);
    }
  }

  double rate() const { return optimizer_->param_groups().front().options().get_lr(); }

  bool records_wanted() const {
    return !options_.metrics_file.empty() || !options_.log_dir.empty();
  }

  void open_records() {
    if (!records_wanted()) return;
    std::string error;
    if (hvd::rank() == 0)
      records_.open(options_.metrics_file, options_.log_dir, !options_.resume.empty(), error);
    agree(error, exit_cannot_create);
  }

  void open_loss_log() {
    if (options_.loss_log.empty()) return;
    std::string error;
    if (hvd::rank() == 0) {
      loss_log_.reset(std::fopen(options_.loss_log.c_str(), "we"));
      if (!loss_log_) error = options_.loss_log + ": " + std::system_category().message(errno);
    }
    agree(error, exit_cannot_create);
  }

  void close_loss_log() {
    if (options_.loss_log.empty()) return;
    std::string error;
    if (loss_log_ && std::ferror(loss_log_.get()) != 0) error = options_.loss_log + ": write error";
    if (loss_log_ && std::fclose(loss_log_.release()) != 0 && error.empty()) {
      error = options_.loss_log + ": " + std::system_category().message(errno);
    }
    agree(error, exit_cannot_create);
  }

  void print_header(std::size_t train_samples, std::size_t test_samples) const {
    if (hvd::rank() != 0) return;
    const std::int64_t global = recipe_.batch_size * hvd::size();
    std::int64_t parameters = 0;
    for (const auto& parameter : model_->parameters()) parameters += parameter.numel();
    std::printf("%s: %lld parameters, dropout %g, seed %llu\n", options_.model.c_str(),
                static_cast<long long>(parameters), options_.shape.dropout,
                static_cast<unsigned long long>(progress_.seed));
    std::printf("%d %s x %lld = %lld %s per step; %zu training, %zu test %s\n", hvd::size(),
                hvd::size() == 1 ? "rank" : "ranks", static_cast<long long>(recipe_.batch_size),
                static_cast<long long>(global), info_.data.samples, train_samples, test_samples,
                info_.data.samples);
    std::printf("%s, lr %g x %d = %g",
                recipe_.optimizer == "sgd" ? "SGD" : recipe_.optimizer.c_str(), recipe_.lr,
                hvd::size(), lr_);
    if (recipe_.optimizer == "sgd") std::printf(", momentum %g", recipe_.momentum);
    std::printf("\n");
    if (recipe_.warmup_epochs > 0)
      std::printf("warm-up over %lld epochs\n", static_cast<long long>(recipe_.warmup_epochs));
    for (const LearningRateDrop& drop : recipe_.drops)
      std::printf("lr %g after %lld epochs\n", lr_ * drop.factor,
                  static_cast<long long>(drop.epoch));
    if (!options_.resume.empty()) {
      std::printf("resumed from %s after %lld epochs, %lld steps\n", options_.resume.c_str(),
                  static_cast<long long>(progress_.epochs),
                  static_cast<long long>(progress_.steps));
    }
    std::fflush(stdout);
  }

  void train_epoch(Trainer& trainer, Dataset& train, Dataset& test) {
    // A stream of its own per epoch and rank, so a resumed run drops what an unbroken one does.
    const auto epoch = static_cast<std::uint64_t>(progress_.epochs);
    const auto rank = static_cast<std::uint64_t>(hvd::rank());
    torch::manual_seed(SplitMix(progress_.seed, epoch << 32 | rank).next());
    const EpochSampler order(train.size(), progress_.seed, epoch);
    for (hvd::LearningRateSchedule& schedule : schedules_)
      schedule.on_epoch_begin(static_cast<int>(epoch));
    const auto before = progress_.steps;
    const auto start = std::chrono::steady_clock::now();
    const Score score = trainer.train_epoch(train, order, batch_size(), steps_left(),
                                            {[this](std::size_t step) { before_step(step); },
                                             [this](double loss) { after_step(loss); }});
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (hvd::rank() == 0) {
      const std::int64_t number = progress_.epochs + 1;
      std::printf("epoch %lld/%lld  loss %.4f  accuracy %.2f %%  %.0f %s/s",
                  static_cast<long long>(number), static_cast<long long>(recipe_.epochs),
                  score.loss, 100 * score.accuracy,
                  static_cast<double>(score.samples) / seconds.count(), info_.data.samples);
      if (!schedules_.empty()) std::printf("  lr %g", rate());
      std::printf("\n");
      std::fflush(stdout);
    }
    const auto whole = static_cast<std::int64_t>(order.steps(batch_size(), hvd::size()));
    if (progress_.steps - before < whole) return;  // --max-steps cut it short
    ++progress_.epochs;
    EpochResult result{progress_.epochs, progress_.steps, score,
                       seconds.count(),  rate(),          std::nullopt};
    if (recipe_.target_accuracy > 0) result.validation = validate(trainer, test);
    if (records_wanted()) {
      std::string error;
      if (hvd::rank() == 0) records_.add(result, error);
      agree(error, exit_cannot_create);
    }
    if (!options_.checkpoint.empty()) save();
  }

  // All ranks have the same score, so all end in the same epoch.
  Score validate(Trainer& trainer, Dataset& test) {
    const Score score = trainer.evaluate(test);
    progress_.on_target = score.accuracy > recipe_.target_accuracy ? progress_.on_target + 1 : 0;
    if (hvd::rank() != 0) return score;
    std::printf("validation loss %.4f  accuracy %.2f %%\n", score.loss, 100 * score.accuracy);
    if (on_target())
      std::printf("accuracy above %g %% for %lld %s in a row: done\n",
                  100 * recipe_.target_accuracy, static_cast<long long>(progress_.on_target),
                  progress_.on_target == 1 ? "epoch" : "epochs");
    std::fflush(stdout);
    return score;
  }

  void before_step(std::size_t step) {
    for (hvd::LearningRateSchedule& schedule : schedules_)
      schedule.on_batch_begin(static_cast<int>(step));
  }

  void after_step(double loss) {
    for (hvd::LearningRateSchedule& schedule : schedules_) schedule.on_batch_end();
    ++progress_.steps;
    if (options_.loss_log.empty()) return;
    const double mean = hvd::metric_average(loss);
    if (loss_log_) std::fprintf(loss_log_.get(), "%.9g\n", mean);
  }

  void save() const {
    std::string error;
    if (hvd::rank() == 0) {
      write_whole_file(
          options_.checkpoint,
          encode_checkpoint({options_.model, recipe_.optimizer}, *model_, *optimizer_, progress_),
          error);
    }
    agree(error, exit_cannot_create);
  }

  const TrainOptions& options_;
  const Recipe& recipe_;
  const ModelInfo& info_;
  std::shared_ptr<LabModel> model_;
  Progress progress_;
  double lr_ = 0;  // of all ranks
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<hvd::LearningRateSchedule> schedules_;
  File loss_log_;
  EpochRecords records_;  // of rank 0
};

void complain(const std::string& text) {
  // Torch appends a backtrace; the first line says it.
  std::fprintf(stderr, "train: %s\n", text.substr(0, text.find('\n')).c_str());
}

// Whoever exits first makes the launcher end the others. The one that says why must be heard
// before.
void leave_together() noexcept {
  try {
    hvd::barrier();
  } catch (const std::exception&) {
    // Somebody is gone already.
  }
  hvd::shutdown();
}

}  // namespace

int run_training(const TrainOptions& options) {
  try {
    hvd::init();
    TrainingRun(options).run();
  } catch (const Quit& quit) {
    if (*quit.what() != '\0') complain(quit.what());
    leave_together();
    return quit.exit_code();
  } catch (const c10::Error& error) {
    complain(error.what_without_backtrace());
    hvd::shutdown();
    return exit_failed;
  } catch (const std::exception& error) {
    complain(error.what());
    hvd::shutdown();
    return exit_failed;
  }
  hvd::shutdown();
  return exit_ok;
}

int run_description(const TrainOptions& options) {
  ParsedOptions described{std::nullopt, exit_ok, {}};
  try {
    described.text = describe_model(*find_model(options.model), options.shape);
  } catch (const std::exception& error) {
    complain(error.what());
    return exit_failed;
  }
  return report_options(described);
}

int report_options(const ParsedOptions& parsed) {
  bool mine = true;
  try {
    hvd::init();
    mine = hvd::rank() == 0;
  } catch (const std::exception&) {
    // Then everybody says it.
  }
  if (mine) {
    std::FILE* out = parsed.exit_code == exit_ok ? stdout : stderr;
    std::fputs(parsed.text.c_str(), out);
    std::fflush(out);
  }
  leave_together();
  return parsed.exit_code;
}

}  // namespace hvdrun
