
#include "tests/catch.h"
#include "worker/agent/stalls/host_survey.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

StallReport waits_for(const char* tensor, std::uint64_t age_ms) {
  return {{{tensor, age_ms}}, 1, tensor, 1};
}

TEST_CASE("ranks that wait say so together, and the longest wait counts", "[stall]") {
  HostSurvey survey;
  const TimePoint now{};
  CHECK_FALSE(survey.next_deadline());
  survey.reported(4, waits_for("a", 60'000), now);
  survey.reported(5, waits_for("a", 60'020), now + 20ms);
  survey.reported(6, waits_for("a", 59'000), now + 30ms);
  survey.reported(6, {}, now + 30ms);
  CHECK_FALSE(survey.take_notice(now + 99ms));
  CHECK(survey.next_deadline() == now + 100ms);
  const auto notice = survey.take_notice(now + 100ms);
  REQUIRE(notice);
  CHECK(notice->rank == 5);
  CHECK(notice->age_ms == 60'020);
  CHECK_FALSE(survey.take_notice(now + 200ms));
  CHECK_FALSE(survey.next_deadline());
  CHECK_FALSE(survey.take_answer(now + 200ms));  // nobody has asked
}

TEST_CASE("a question is answered when all asked ranks have, with what others said before",
          "[stall]") {
  HostSurvey survey;
  const TimePoint now{};
  survey.reported(4, waits_for("old", 1), now);
  survey.take_notice(now + 1s);
  survey.ask(7, {5, 6}, now);
  CHECK(survey.next_deadline() == now + limits::kWorkerAnswer);
  survey.answered(5, 7, waits_for("a", 2));
  survey.answered(6, 6, waits_for("late", 3));  // to an older question
  CHECK_FALSE(survey.take_answer(now + 10ms));
  SECTION("all of them") {
    survey.answered(6, 7, waits_for("b", 4));
    const auto answer = survey.take_answer(now + 10ms);
    REQUIRE(answer);
    CHECK(answer->request == 7);
    REQUIRE(answer->ranks.size() == 3);
    CHECK_FALSE(answer->ranks.at(4).answered);
    CHECK(answer->ranks.at(4).report.last_submitted == "old");
    CHECK(answer->ranks.at(5).answered);
    CHECK(answer->ranks.at(6).answered);
    CHECK(answer->ranks.at(6).report.last_submitted == "b");
    CHECK_FALSE(survey.take_answer(now + 10s));
    survey.ask(8, {5}, now + 20ms);
    CHECK_FALSE(survey.take_answer(now + 20ms + limits::kWorkerAnswer)->ranks.at(6).answered);
  }
  SECTION("not in time") {
    CHECK_FALSE(survey.take_answer(now + limits::kWorkerAnswer - 1ms));
    const auto answer = survey.take_answer(now + limits::kWorkerAnswer);
    REQUIRE(answer);
    CHECK_FALSE(answer->ranks.at(6).answered);
    CHECK(answer->ranks.at(6).report.last_submitted == "late");
  }
  SECTION("one leaves") {
    survey.gone(6);
    CHECK(survey.take_answer(now + 10ms)->ranks.count(6) == 0);
  }
}

TEST_CASE("nobody to ask is an answer at once, and a second question replaces the first",
          "[stall]") {
  HostSurvey survey;
  const TimePoint now{};
  survey.ask(1, {4}, now);
  survey.ask(2, {}, now);
  const auto answer = survey.take_answer(now);
  REQUIRE(answer);
  CHECK(answer->request == 2);
  CHECK(answer->ranks.empty());
}

TEST_CASE("who leaves does not wait any more", "[stall]") {
  HostSurvey survey;
  const TimePoint now{};
  survey.reported(4, waits_for("a", 5), now);
  survey.gone(5);
  CHECK(survey.next_deadline());
  survey.gone(4);
  CHECK_FALSE(survey.next_deadline());
  CHECK_FALSE(survey.take_notice(now + 1s));
}

}  // namespace
}  // namespace hvdrun
