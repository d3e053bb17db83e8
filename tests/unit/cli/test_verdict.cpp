#include <signal.h>

#include <catch2/catch.hpp>

#include "cli/verdict.h"

namespace hvdrun {
namespace {

TEST_CASE("a verdict names rank, host, process and cause", "[verdict]") {
  JobEnded verdict;
  verdict.cause = EndCause::rank_failed;
  verdict.rank = 3;
  verdict.pid = 77;
  verdict.host = "gpu1";
  verdict.value = 7;
  verdict.others_ended = 3;
  CHECK(describe_verdict(verdict) ==
        "rank 3 on gpu1 (pid 77) exited with code 7; the other 3 ranks were ended");
  verdict.kind = ExitKind::signaled;
  verdict.value = SIGSEGV;
  verdict.others_ended = 1;
  CHECK(describe_verdict(verdict) ==
        "rank 3 on gpu1 (pid 77) was killed by signal 11 (SIGSEGV); the other rank was ended");
  verdict.kind = ExitKind::not_started;
  verdict.text = "'x': No such file or directory";
  CHECK(describe_verdict(verdict) ==
        "rank 3 on gpu1 could not start: 'x': No such file or directory");
}

TEST_CASE("the other causes", "[verdict]") {
  JobEnded verdict;
  verdict.cause = EndCause::success;
  CHECK(describe_verdict(verdict).empty());
  verdict.cause = EndCause::aborted;
  verdict.value = SIGINT;
  CHECK(describe_verdict(verdict) == "ended by signal 2 (SIGINT)");
  verdict.cause = EndCause::host_lost;
  verdict.host = "gpu1";
  verdict.text = "its agent is gone";
  CHECK(describe_verdict(verdict) == "host gpu1 was lost: its agent is gone");
  verdict.cause = EndCause::start_timeout;
  verdict.text = "gpu1, gpu2";
  CHECK_THAT(describe_verdict(verdict), Catch::Contains("gpu1, gpu2"));
}

}  // namespace
}  // namespace hvdrun
