#include "worker/labs/report/train_console.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "common/base/printable.h"
#include "worker/labs/base/number_text.h"

namespace hvdrun {
namespace {

// The columns of hvdrun's terminal, which shows what this process writes into a pipe.
std::optional<std::size_t> columns_of_hvdrun() {
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody sets it
  const char* const told = std::getenv("HVD_OUTPUT_COLUMNS");
  if (told == nullptr) return std::nullopt;
  std::size_t columns = 0;
  const char* const end = told + std::strlen(told);
  const auto [stop, trouble] = std::from_chars(told, end, columns);
  if (trouble != std::errc() || stop != end || columns == 0) return std::nullopt;
  struct stat out {};
  if (::fstat(STDOUT_FILENO, &out) != 0 || !S_ISFIFO(out.st_mode)) return std::nullopt;
  return columns;
}

// None where stdout is no terminal.
std::optional<std::size_t> columns_of_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return std::nullopt;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

// None where stdout is no terminal, or one that cannot go back in a line.
std::optional<ProgressBar> bar_for_stdout() {
  if (const auto columns = columns_of_hvdrun())
    return ProgressBar(*columns, ProgressBar::Terminal::of_hvdrun);
  const auto columns = columns_of_terminal();
  const char* const term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (!columns || term == nullptr || std::strcmp(term, "dumb") == 0) return std::nullopt;
  return ProgressBar(*columns);
}

long long wide(std::int64_t value) { return value; }

}  // namespace

TrainConsole::TrainConsole(const TrainOptions& options, bool silent)
    : options_(options),
      samples_(find_model(options.model)->data.samples),
      silent_(silent),
      shows_time_(find_model(options.model)->reports_classes) {
  if (!silent) bar_ = bar_for_stdout();
}

void TrainConsole::set_silent(bool silent) {
  if (silent_ == silent) return;
  clear_bar();
  silent_ = silent;
  bar_.reset();
  if (!silent) bar_ = bar_for_stdout();
}

TrainConsole::~TrainConsole() { clear_bar(); }

void TrainConsole::clear_bar() {
  if (!bar_) return;
  std::fputs(bar_->clear().c_str(), stdout);
  std::fflush(stdout);
}

void TrainConsole::header(const RunFacts& facts, const Progress& progress,
                          const std::string& resumed_from) {
  if (silent_) return;
  const Recipe& recipe = options_.recipe;
  const ModelInfo& model = *find_model(options_.model);
  std::printf("%s: %lld parameters", model.name, wide(facts.parameters));
  if (model.shape.dropout > 0) std::printf(", dropout %g", options_.shape.dropout);
  std::printf(", seed %llu%s%s\n", static_cast<unsigned long long>(progress.seed),
              facts.on_gpu ? ", on the GPU" : "", options_.synthetic ? ", synthetic data" : "");
  std::printf("%d %s x %lld = %lld %s per step; %zu training, %zu test %s\n", facts.ranks,
              facts.ranks == 1 ? "rank" : "ranks", wide(recipe.batch_size),
              wide(recipe.batch_size * facts.ranks), samples_, facts.train_samples,
              facts.test_samples, samples_);
  std::printf("%s, lr %g x %g = %g", recipe.optimizer == "sgd" ? "SGD" : recipe.optimizer.c_str(),
              recipe.lr, facts.lr_factor, recipe.lr * facts.lr_factor);
  if (recipe.optimizer == "sgd") std::printf(", momentum %g", recipe.momentum);
  if (recipe.weight_decay > 0) std::printf(", weight decay %g", recipe.weight_decay);
  if (options_.use_adasum) std::printf(", Adasum");
  if (options_.fp16_allreduce) std::printf(", gradients travel as fp16");
  std::printf("\n");
  if (recipe.warmup_epochs > 0)
    std::printf("warm-up over %lld epochs\n", wide(recipe.warmup_epochs));
  for (const LearningRateDrop& drop : recipe.drops)
    std::printf("lr %g after %lld epochs\n", recipe.lr * facts.lr_factor * drop.factor,
                wide(drop.epoch));
  if (model.data.photographs || options_.dtype != "fp32" || options_.data_format != "NCHW")
    std::printf("data type %s, data format %s\n", options_.dtype.c_str(),
                options_.data_format.c_str());
  if (!resumed_from.empty())
    std::printf("resumed from %s after %lld epochs, %lld steps\n", resumed_from.c_str(),
                wide(progress.epochs), wide(progress.steps));
  std::fflush(stdout);
}

void TrainConsole::begin_epoch(std::int64_t epoch, std::size_t steps) {
  epoch_ = epoch;
  steps_ = steps;
}

bool TrainConsole::tells(std::size_t done) const {
  const auto interval = static_cast<std::size_t>(options_.recipe.log_interval);
  return interval > 0 && done % interval == 0;
}

void TrainConsole::step(std::size_t done, double loss, Throughput& speed) {
  if (silent_) return;
  if (tells(done)) {
    clear_bar();
    std::printf("epoch %lld  step %zu/%zu  loss %s  %.0f %s/s\n", wide(epoch_), done, steps_,
                number_text(loss).c_str(), speed.take_interval(), samples_);
    std::fflush(stdout);
  }
  if (!bar_) return;
  const std::string text =
      bar_->draw("epoch " + std::to_string(epoch_) + "/" + std::to_string(options_.recipe.epochs),
                 done, steps_, loss, std::chrono::steady_clock::now());
  if (text.empty()) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

void TrainConsole::end_epoch(const Score& score, const Throughput::Epoch& speed, double seconds,
                             double in_all, std::optional<double> lr,
                             std::optional<double> waited) {
  if (silent_) return;
  clear_bar();
  std::printf("epoch %lld/%lld  loss %s  accuracy %.2f %%  %.0f %s/s", wide(epoch_),
              wide(options_.recipe.epochs), number_text(score.loss).c_str(), 100 * score.accuracy,
              speed.per_second, samples_);
  if (speed.left_out > 0) std::printf(" without the first %zu steps", speed.left_out);
  if (lr) std::printf("  lr %g", *lr);
  if (waited) std::printf("  waited %.1f %% for %s", 100 * *waited / seconds, samples_);
  if (shows_time_) std::printf("  %.1f s in all", in_all);
  std::printf("\n");
  std::fflush(stdout);
}

void TrainConsole::validation(const Score& score) {
  if (silent_) return;
  std::printf("validation loss %s  accuracy %.2f %%\n", number_text(score.loss).c_str(),
              100 * score.accuracy);
  std::fflush(stdout);
}

void TrainConsole::target_reached(std::int64_t epochs_in_a_row) {
  if (silent_) return;
  std::printf("accuracy above %g %% for %lld %s in a row: done\n",
              100 * options_.recipe.target_accuracy, wide(epochs_in_a_row),
              epochs_in_a_row == 1 ? "epoch" : "epochs");
  std::fflush(stdout);
}

void TrainConsole::stands_still(std::int64_t epochs_in_a_row) {
  if (silent_) return;
  std::printf("validation loss no lower for %lld %s in a row: done\n", wide(epochs_in_a_row),
              epochs_in_a_row == 1 ? "epoch" : "epochs");
  std::fflush(stdout);
}

void TrainConsole::test(const Score& score) {
  if (silent_) return;
  std::printf("test accuracy %.2f %% (loss %s)\n", 100 * score.accuracy,
              number_text(score.loss).c_str());
  std::fflush(stdout);
}

void TrainConsole::report(const ConfusionMatrix& matrix, const std::vector<std::string>& names) {
  if (silent_) return;
  // A terminal's last column stays empty: some go to the next line behind it.
  std::size_t columns = kReportColumns;
  if (const auto of_terminal = columns_of_terminal()) columns = *of_terminal - 1;
  if (const auto of_hvdrun = columns_of_hvdrun()) columns = *of_hvdrun;
  std::printf("\n%s", classification_report(matrix, names, columns).c_str());
  std::fflush(stdout);
}

void TrainConsole::note(const std::string& text) {
  if (silent_) return;
  clear_bar();
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void TrainConsole::warn(const std::string& text) {
  if (silent_) return;
  clear_bar();
  std::fprintf(stderr, "train: %s\n", printable(text, text.size()).c_str());
}

}  // namespace hvdrun
