#include <signal.h>

#include "cli/run/job_phase.h"
#include "common/base/exit_code.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Phase = JobPhase::Phase;
using Request = JobPhase::Request;
using std::chrono::milliseconds;

constexpr JobPhase::TimePoint kStart{};

JobEnded ended(EndCause cause, std::uint32_t exit_code) {
  JobEnded verdict;
  verdict.cause = cause;
  verdict.exit_code = exit_code;
  return verdict;
}

TEST_CASE("the first verdict counts, and its summary is shown once", "[job phase]") {
  JobPhase job;
  CHECK(job.phase() == Phase::running);
  CHECK_FALSE(job.is_over());
  CHECK_FALSE(job.take_summary());
  auto failed = ended(EndCause::rank_failed, 3);
  auto later = ended(EndCause::success, 0);
  CHECK(job.on_verdict(failed));
  CHECK(job.phase() == Phase::summing_up);
  CHECK_FALSE(job.on_verdict(later));
  CHECK_FALSE(job.on_fault(exit_code::kInternal));
  CHECK(job.exit_code() == 3);
  CHECK(job.take_summary()->exit_code == 3);
  CHECK(job.phase() == Phase::leaving);
  CHECK_FALSE(job.take_summary());
}

TEST_CASE("a user who wants no more of a job is known", "[job phase]") {
  JobPhase job;
  CHECK_FALSE(job.is_interrupted());
  auto failed = ended(EndCause::rank_failed, 3);
  CHECK(job.on_verdict(failed));
  CHECK_FALSE(job.is_interrupted());
  SECTION("by a signal") { job.on_signal(SIGINT, kStart); }
  SECTION("as nobody reads its output") {
    job.on_reader_gone();
    // That is no first signal.
    CHECK(job.on_signal(SIGINT, kStart) == Request::hurry);
  }
  CHECK(job.is_interrupted());
}

TEST_CASE("a fault or a success has no summary to come", "[job phase]") {
  JobPhase faulty;
  CHECK(faulty.on_fault(exit_code::kHost));
  CHECK(faulty.phase() == Phase::leaving);
  CHECK_FALSE(faulty.take_summary());
  CHECK(faulty.exit_code() == exit_code::kHost);
  JobPhase good;
  auto success = ended(EndCause::success, 0);
  CHECK(good.on_verdict(success));
  CHECK(good.phase() == Phase::leaving);
  CHECK(good.exit_code() == exit_code::kOk);
}

TEST_CASE("one signal ends the job, a second one kills it, and an echo is none", "[job phase]") {
  JobPhase job;
  CHECK(job.on_signal(SIGINT, kStart) == Request::end_job);
  CHECK(job.phase() == Phase::interrupted);
  CHECK(job.on_signal(SIGTERM, kStart + milliseconds(99)) == Request::nothing);
  CHECK(job.on_signal(SIGTERM, kStart + milliseconds(100)) == Request::kill_job);
  CHECK(job.exit_code() == 128 + SIGTERM);
  CHECK(job.on_signal(SIGTERM, kStart + milliseconds(150)) == Request::nothing);
}

TEST_CASE("after the verdict a signal hurries, and the next one leaves", "[job phase]") {
  JobPhase job;
  auto failed = ended(EndCause::rank_failed, 3);
  job.on_verdict(failed);
  CHECK(job.on_signal(SIGINT, kStart) == Request::hurry);
  CHECK(job.on_signal(SIGINT, kStart + milliseconds(1)) == Request::leave);
  CHECK(job.exit_code() == 3);

  JobPhase interrupted;
  CHECK(interrupted.on_signal(SIGINT, kStart) == Request::end_job);
  auto aborted = ended(EndCause::aborted, 128 + SIGINT);
  CHECK(interrupted.on_verdict(aborted));
  CHECK(interrupted.on_signal(SIGINT, kStart + milliseconds(50)) == Request::nothing);
  CHECK(interrupted.on_signal(SIGINT, kStart + milliseconds(500)) == Request::leave);
  CHECK(interrupted.exit_code() == 128 + SIGINT);
}

TEST_CASE("lost output spoils a success alone", "[job phase]") {
  for (const bool before : {true, false}) {
    CAPTURE(before);
    for (const std::uint32_t code : {0U, 3U}) {
      JobPhase job;
      if (before) job.on_output_lost();
      auto verdict = ended(code == 0 ? EndCause::success : EndCause::rank_failed, code);
      job.on_verdict(verdict);
      if (!before) job.on_output_lost();
      CHECK(job.exit_code() == (code == 0 ? exit_code::kOutput : 3));
      if (before) CHECK(static_cast<int>(verdict.exit_code) == job.exit_code());
    }
  }
  JobPhase job;
  job.on_reader_gone();  // too early to be told by the exit code: a signal ends the job
  auto success = ended(EndCause::success, 0);
  job.on_verdict(success);
  CHECK(job.exit_code() == exit_code::kOk);
  job.on_reader_gone();
  CHECK(job.exit_code() == 128 + SIGPIPE);
}

}  // namespace
}  // namespace hvdrun
