#include "cli/run/job_phase.h"

#include <signal.h>
#include <utility>

#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kOneSignal{100};

}  // namespace

JobPhase::Request JobPhase::on_signal(int signal, TimePoint now) {
  if (last_end_ && now - *last_end_ < kOneSignal) return Request::nothing;
  if (last_end_) last_end_ = now;
  const bool again = std::exchange(had_signal_, true);
  if (!again) signal_ = signal;
  switch (phase_) {
    case Phase::running:
      last_end_ = now;
      phase_ = Phase::interrupted;
      return Request::end_job;
    case Phase::interrupted:
      exit_code_ = exit_code::kSignalBase + signal;
      phase_ = Phase::leaving;
      return Request::kill_job;
    case Phase::summing_up:
    case Phase::leaving:
      break;
  }
  return again ? Request::leave : Request::hurry;
}

bool JobPhase::on_verdict(JobEnded& verdict) {
  if (is_over()) return false;
  if (output_lost_ && verdict.exit_code == exit_code::kOk) verdict.exit_code = exit_code::kOutput;
  exit_code_ = static_cast<int>(verdict.exit_code);
  if (verdict.cause == EndCause::success) {
    phase_ = Phase::leaving;
  } else {
    phase_ = Phase::summing_up;
    summary_ = verdict;
  }
  return true;
}

bool JobPhase::on_fault(int exit_code) {
  if (is_over()) return false;
  exit_code_ = exit_code;
  phase_ = Phase::leaving;
  return true;
}

void JobPhase::on_reader_gone() {
  reader_gone_ = true;
  if (is_over() && exit_code_ == exit_code::kOk) exit_code_ = exit_code::kSignalBase + SIGPIPE;
}

void JobPhase::on_output_lost() {
  output_lost_ = true;
  if (is_over() && exit_code_ == exit_code::kOk) exit_code_ = exit_code::kOutput;
}

std::optional<JobEnded> JobPhase::take_summary() {
  if (phase_ == Phase::summing_up) phase_ = Phase::leaving;
  return std::exchange(summary_, std::nullopt);
}

}  // namespace hvdrun
