// Where a job stands for its driver, and the exit code that it will have. All transitions are made
// here. Sans-I/O.
//
//   running ──signal──> interrupted      the first verdict or fault counts, later ones do not
//      └──────┬──────────────┘
//        verdict, fault, or a second signal
//             ├──> summing_up ──summary──> leaving      the job has failed
//             └─────────────────────────────^           it has not, or the fault was told at once
#pragma once

#include <chrono>
#include <optional>

#include "common/wire/messages.h"

namespace hvdrun {

class JobPhase {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Phase {
    running,      // no verdict yet
    interrupted,  // nor here, but a signal has asked for the job's end
    summing_up,   // the verdict is in, and its summary is not shown yet
    leaving,      // all is said; the rest of the output comes, and everybody goes
  };
  // The wish of a signal that ends a job.
  enum class Request {
    nothing,   // it is the same one again
    end_job,   // down the kill ladder
    hurry,     // the job is over: no reader is waited for any more
    kill_job,  // at once, whoever still runs
    leave,     // at once, though output is not shown yet
  };

  Phase phase() const { return phase_; }
  bool is_over() const { return phase_ == Phase::summing_up || phase_ == Phase::leaving; }

  // Two signals within a moment are one: `timeout` signals its child and then its group, a
  // terminal's hang-up comes from shell and kernel.
  Request on_signal(int signal, TimePoint now);
  // The coordinator's verdict. False: another one was there before. Otherwise its exit code is now
  // what hvdrun's will be.
  bool on_verdict(JobEnded& verdict);
  // A fault that is told at once. False: a verdict was there before.
  bool on_fault(int exit_code);
  // Nobody reads the output any more, which is no fault of a job that has ended well.
  void on_reader_gone();
  // Some of the output could not be written or did not come.
  void on_output_lost();
  // The verdict that is to be shown now; nothing: there is none, or it was taken before.
  std::optional<JobEnded> take_summary();

  // A signal has asked for the end, or a reader has gone away.
  bool is_interrupted() const { return had_signal_ || reader_gone_; }
  int signal() const { return signal_; }  // the first; 0: none
  bool is_output_lost() const { return output_lost_; }
  // Only when is_over().
  int exit_code() const { return exit_code_; }

 private:
  Phase phase_ = Phase::running;
  int exit_code_ = 0;
  std::optional<JobEnded> summary_;    // while summing up
  std::optional<TimePoint> last_end_;  // of the signals, since one has interrupted the job
  bool had_signal_ = false;
  int signal_ = 0;
  bool reader_gone_ = false;
  bool output_lost_ = false;
};

}  // namespace hvdrun
