#include <signal.h>

#include "cli/run/restart_policy.h"
#include "common/base/exit_code.h"
#include "common/wire/wire.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr RestartPolicy::Limits kThree{3};

JobEnded failed(EndCause cause, std::uint32_t exit_code, std::uint32_t rank = 0) {
  JobEnded verdict;
  verdict.cause = cause;
  verdict.exit_code = exit_code;
  verdict.value = exit_code;
  verdict.rank = rank;
  verdict.host = "gpu1";
  return verdict;
}

TEST_CASE("a job without restarts ends without a word of them", "[restarts]") {
  RestartPolicy none({0});
  const auto decision = none.on_failure(failed(EndCause::rank_failed, 3), seconds(60));
  CHECK_FALSE(decision.pause);
  CHECK(decision.text.empty());
}

TEST_CASE("a job is started again so often, and the pause doubles", "[restarts]") {
  RestartPolicy policy({9});
  for (const int pause : {1, 2, 4, 8, 16, 32, 60, 60}) {
    const auto decision = policy.on_failure(failed(EndCause::rank_failed, 3), seconds(60));
    CHECK(decision.pause == seconds(pause));
    CHECK(decision.text == "restart " + std::to_string(policy.history().restarts) + " of 9 in " +
                               std::to_string(pause) + " s");
  }
  // It was sound for long.
  CHECK(policy.on_failure(failed(EndCause::host_lost, 69), seconds(600)).pause == seconds(1));
  const auto last = policy.on_failure(failed(EndCause::stalled, 82), seconds(60));
  CHECK_FALSE(last.pause);
  CHECK(last.text == "it is not started again, as it was 9 times (--max-restarts 9)");
}

TEST_CASE("an end that is nobody's failure, or would come again, is final", "[restarts]") {
  for (const EndCause cause :
       {EndCause::success, EndCause::aborted, EndCause::timeout, EndCause::not_startable,
        EndCause::too_many_resets, EndCause::start_timeout}) {
    RestartPolicy policy(kThree);
    const auto decision = policy.on_failure(failed(cause, 69), seconds(60));
    CHECK_FALSE(decision.pause);
    CHECK(decision.text.empty());
  }
  for (const std::uint32_t code : {64U, 93U, 126U, 127U}) {
    RestartPolicy policy(kThree);
    const auto decision = policy.on_failure(failed(EndCause::rank_failed, code), seconds(60));
    CHECK_FALSE(decision.pause);
    CHECK(decision.text ==
          "it is not started again, as code " + std::to_string(code) + " would come again");
  }
}

TEST_CASE("a host that does not come up is waited for once it has been there", "[restarts]") {
  RestartPolicy policy(kThree);
  CHECK(policy.on_failure(failed(EndCause::host_lost, 69), seconds(60)).pause == seconds(1));
  CHECK(policy.on_failure(failed(EndCause::start_timeout, 69), seconds(31)).pause == seconds(2));
  CHECK(policy.on_failure(failed(EndCause::not_startable, 127), seconds(1)).pause == seconds(4));
}

TEST_CASE("the next start knows what was before", "[restarts]") {
  RestartHistory history;
  for (const int pause : {1, 2}) {
    RestartPolicy policy({9}, history);
    CHECK(policy.on_failure(failed(EndCause::rank_failed, 3), seconds(1)).pause == seconds(pause));
    REQUIRE_FALSE(decode(encode(policy.history()), history));
  }
  CHECK_FALSE(
      RestartPolicy({9}, history).on_failure(failed(EndCause::rank_failed, 3), seconds(1)).pause);
}

TEST_CASE("the same failure of the start three times is one of each start", "[restarts]") {
  RestartPolicy policy({9});
  const auto fail = [&](std::uint32_t code, std::uint32_t rank, milliseconds ran) {
    return policy.on_failure(failed(EndCause::rank_failed, code, rank), ran);
  };
  CHECK(fail(3, 1, seconds(2)).pause);
  CHECK(fail(3, 1, seconds(2)).pause);
  // Another matter.
  CHECK(fail(4, 1, seconds(2)).pause);
  CHECK(fail(4, 1, seconds(2)).pause);
  CHECK(fail(4, 2, seconds(31)).pause);
  // Any rank may be the first of those that fail alike.
  CHECK(fail(4, 1, seconds(2)).pause);
  CHECK(fail(4, 3, seconds(2)).pause);
  const auto last = fail(4, 2, seconds(29));
  CHECK_FALSE(last.pause);
  CHECK(last.text ==
        "it is not started again, as it has failed in the same way 3 times, each within 30 s");
}

}  // namespace
}  // namespace hvdrun
