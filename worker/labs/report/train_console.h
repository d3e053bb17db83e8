// The console of a run: rank 0 prints on stdout, with a progress bar where that is a terminal. The
// other ranks print nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "worker/labs/checkpoint/checkpoint.h"
#include "worker/labs/options/train_options.h"
#include "worker/labs/report/classification_report.h"
#include "worker/labs/report/progress_bar.h"
#include "worker/labs/report/score.h"
#include "worker/labs/report/throughput.h"

namespace hvdrun {

// Facts that header() needs beside the options.
struct RunFacts {
  int ranks = 1;
  std::int64_t parameters = 0;
  std::size_t train_samples = 0;
  std::size_t test_samples = 0;
  double lr_factor = 1;  // what the rate of one rank is multiplied by
  bool on_gpu = false;
};

class TrainConsole {
 public:
  // With `silent` it prints nothing at all.
  TrainConsole(const TrainOptions& options, bool silent);
  // The ranks of an elastic job change.
  void set_silent(bool silent);
  // Takes the bar away, so that an error stands on a line of its own.
  ~TrainConsole();
  TrainConsole(const TrainConsole&) = delete;
  TrainConsole& operator=(const TrainConsole&) = delete;

  // `resumed_from` is empty for a run from the start.
  void header(const RunFacts& facts, const Progress& progress, const std::string& resumed_from);
  void begin_epoch(std::int64_t epoch, std::size_t steps);
  // True when step() prints a line after `done` steps of this epoch (every --log-interval of them):
  // all ranks say the same, also silent ones.
  bool tells(std::size_t done) const;
  // After each step: the bar, and a line where one is due. `loss` is then the mean over the ranks,
  // otherwise rank 0's alone may do. The line has the speed since the one before.
  void step(std::size_t done, double loss, Throughput& speed);
  // `speed`: of all ranks. `in_all`: seconds of all epochs, those before a resume included; `lr`
  // where it changes in the course of the training; `waited`: seconds for data.
  void end_epoch(const Score& score, const Throughput::Epoch& speed, double seconds, double in_all,
                 std::optional<double> lr, std::optional<double> waited);
  void validation(const Score& score);
  void target_reached(std::int64_t epochs_in_a_row);
  void stands_still(std::int64_t epochs_in_a_row);
  void test(const Score& score);
  // As wide as the terminal, or kReportColumns.
  void report(const ConfusionMatrix& matrix, const std::vector<std::string>& names);
  // A line on stdout, of what goes on.
  void note(const std::string& text);
  // A line on stderr.
  void warn(const std::string& text);

 private:
  void clear_bar();

  const TrainOptions& options_;
  const char* samples_;  // what they are called
  bool silent_;
  std::optional<ProgressBar> bar_;
  bool shows_time_;  // how long all epochs took so far
  std::int64_t epoch_ = 0;
  std::size_t steps_ = 0;
};

}  // namespace hvdrun
