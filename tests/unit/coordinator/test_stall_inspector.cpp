#include "coordinator/stall_inspector.h"
#include "tests/catch.h"
#include "tests/unit/coordinator/stall_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Numbers = std::vector<std::uint32_t>;
using StallSay = StallInspector::Say;

TEST_CASE_METHOD(StallFixture, "the oldest operation names who waits and who is missing",
                 "[stall]") {
  says(0, {{"grad.1", 61'000}, {"grad.2", 60'500}});
  says(1, {{"grad.2", 60'900}, {"grad.1", 60'100}});
  says(2, {});
  says(3, {{"grad.2", 10}});
  const auto stall = find_stall(ranks, members, 60s);
  REQUIRE(stall);
  CHECK(stall->tensor == "grad.1");
  CHECK(stall->age_ms == 61'000);
  CHECK(stall->others == 1);
  CHECK(stall->waiting == Numbers{0, 1});
  CHECK(stall->missing == Numbers{2, 3, 4, 5});  // 4 and 5 have not answered at all
  CHECK(stall->too_many.empty());
  CHECK_FALSE(find_stall(ranks, members, 62s));
  CHECK_FALSE(find_stall({}, members, 0s));
}

TEST_CASE_METHOD(StallFixture, "what everybody has submitted comes last", "[stall]") {
  for (std::uint32_t rank = 0; rank < 6; ++rank) says(rank, {{"under way", 90'000}});
  auto stall = find_stall(ranks, members, 60s);
  REQUIRE(stall);
  CHECK(stall->tensor == "under way");
  CHECK(stall->missing.empty());
  says(5, {{"under way", 90'000}, {"behind", 70'000}});
  stall = find_stall(ranks, members, 60s);
  CHECK(stall->tensor == "behind");
  CHECK(stall->missing == Numbers{0, 1, 2, 3, 4});
  says(5, {{"under way", 90'000}, {"new", 59'000}});  // just not there yet
  CHECK(find_stall(ranks, members, 60s)->tensor == "under way");
}

TEST_CASE_METHOD(StallFixture, "an operation of a process set is missing on its ranks only",
                 "[stall]") {
  const Numbers set{1, 3, 5, 999};  // nobody is rank 999
  says(1, {{"grad", 60'000, set}});
  says(3, {{"grad", 60'100, set}});
  says(0, {{"grad", 59'000}});  // another one of the same name
  for (const std::uint32_t rank : {2U, 4U, 5U}) says(rank, {});
  auto stall = find_stall(ranks, members, 60s);
  REQUIRE(stall);
  CHECK(stall->of_set);
  CHECK(stall->waiting == Numbers{1, 3});
  CHECK(stall->missing == Numbers{5});
  // All of the set have it: that of all ranks comes first, though it is younger.
  says(5, {{"grad", 60'200, set}});
  says(0, {{"grad", 60'000}});
  stall = find_stall(ranks, members, 60s);
  CHECK_FALSE(stall->of_set);
  CHECK(stall->missing == Numbers{1, 2, 3, 4, 5});
  says(0, {});
  stall = find_stall(ranks, members, 60s);
  CHECK(stall->of_set);
  CHECK(stall->missing.empty());
}

TEST_CASE_METHOD(StallFixture, "a rank that has joined is missing in process sets only",
                 "[stall]") {
  says(0, {{"grad", 60'000}});
  for (std::uint32_t rank = 1; rank < 6; ++rank) says(rank, {});
  says(1, {}).report.in_join = true;
  says(2, {}).report.in_join = true;
  ranks[2].answered = false;  // that was of before
  auto stall = find_stall(ranks, members, 60s);
  REQUIRE(stall);
  CHECK(stall->in_join == Numbers{1});
  CHECK(stall->missing == Numbers{2, 3, 4, 5});
  for (std::uint32_t rank = 1; rank < 6; ++rank) says(rank, {}).report.in_join = true;
  stall = find_stall(ranks, members, 60s);
  CHECK(stall->missing.empty());
  says(3, {{"of a set", 60'000, {3, 4}}});
  stall = find_stall(ranks, members, 60s);
  CHECK(stall->tensor == "of a set");
  CHECK(stall->missing == Numbers{4});
  CHECK(stall->in_join.empty());
}

TEST_CASE_METHOD(StallFixture, "ranks that wait for each other are all told", "[stall]") {
  says(0, {{"a", 61'000}, {"a too", 60'900}});
  says(1, {{"b", 59'000}, {"new", 29'000}});
  for (const std::uint32_t rank : {2U, 3U, 4U, 5U})
    says(rank, {{"a", 60'000}, {"a too", 60'000}, {"b", 58'000}});
  auto stall = find_stall(ranks, members, 60s);
  REQUIRE(stall);
  CHECK(stall->tensor == "a");
  CHECK(stall->missing == Numbers{1});
  REQUIRE(stall->also.size() == 1);  // "a too" is missing where "a" is
  CHECK(stall->also[0].tensor == "b");
  CHECK(stall->also[0].missing == Numbers{0});
  CHECK(stall->also[0].waiting == Numbers{1, 2, 3, 4, 5});
  CHECK(stall->more == 0);
  // Each its own.
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    says(rank, {{"own " + std::to_string(rank), 70'000 - rank}});
  stall = find_stall(ranks, members, 60s);
  CHECK(stall->tensor == "own 0");
  REQUIRE(stall->also.size() == 4);
  CHECK(stall->also[3].tensor == "own 4");
  CHECK(stall->more == 1);
}

TEST_CASE_METHOD(StallFixture, "only what ranks say of now counts", "[stall]") {
  says(0, {{"old", 99'000}}).answered = false;
  CHECK_FALSE(find_stall(ranks, members, 60s));
  says(1, {{"grad", 60'000}});
  const auto stall = find_stall(ranks, members, 60s);
  CHECK(stall->tensor == "grad");
  CHECK(stall->missing == Numbers{0, 2, 3, 4, 5});
}

TEST_CASE_METHOD(StallFixture, "a rank that cannot name all that waits there is not blamed",
                 "[stall]") {
  says(0, {{"grad", 60'000}});
  says(1, {{"x", 1}}).report.pending_count = 20;
  const auto stall = find_stall(ranks, members, 60s);
  CHECK(stall->too_many == Numbers{1});
  CHECK(stall->missing == Numbers{2, 3, 4, 5});
}

TEST_CASE_METHOD(StallFixture, "a name that waits twice on a rank counts once", "[stall]") {
  says(0, {{"", 60'000}, {"", 50'000}});
  CHECK(find_stall(ranks, members, 60s)->waiting == Numbers{0});
}

TEST_CASE("the ranks are asked once in a warning time", "[stall]") {
  StallInspector inspector(60s, 0s);
  const TimePoint now = TimePoint{} + 1h;
  CHECK_FALSE(inspector.take_round(now));
  CHECK_FALSE(inspector.next_deadline());
  inspector.noticed(59'999, now);
  CHECK_FALSE(inspector.take_round(now));
  inspector.noticed(60'000, now);
  CHECK(inspector.next_deadline() == now);
  CHECK(inspector.take_round(now));
  CHECK_FALSE(inspector.take_round(now));
  // Another rank of the same stall; and the first again, a bit before its time.
  inspector.noticed(60'000, now + 1s);
  inspector.noticed(120'000, now + 60s - 5ms);
  CHECK(inspector.next_deadline() == now + 60s);
  CHECK_FALSE(inspector.take_round(now + 60s - 1ms));
  CHECK(inspector.take_round(now + 60s));
  CHECK_FALSE(inspector.next_deadline());
  inspector.noticed(60'000, now + 1h);  // much later: at once
  CHECK(inspector.take_round(now + 1h));
}

TEST_CASE("the end of the shutdown time does not wait for the next warning", "[stall]") {
  StallInspector inspector(60s, 90s);
  const TimePoint now{};
  inspector.noticed(60'000, now);
  CHECK(inspector.take_round(now));
  inspector.noticed(61'000, now + 1s);
  CHECK(inspector.next_deadline() == now + 60s);
  inspector.noticed(90'000, now + 30s);
  CHECK(inspector.next_deadline() == now + 30s);
  inspector.noticed(70'000, now + 31s);  // another rank's is no reason to wait again
  CHECK(inspector.take_round(now + 31s));
}

TEST_CASE_METHOD(StallFixture, "answers are judged by their age", "[stall]") {
  says(0, {{"grad", 60'000}});
  const StallInspector both(60s, 90s);
  CHECK(both.judge(ranks, members).say == StallSay::warning);
  CHECK(both.judge({}, members).say == StallSay::nothing);
  says(0, {{"grad", 89'999}});
  CHECK(both.judge(ranks, members).say == StallSay::warning);
  says(0, {{"grad", 90'000}});
  CHECK(both.judge(ranks, members).say == StallSay::shutdown);
  CHECK(both.judge(ranks, members).stall.tensor == "grad");
  // Each works without the other, and the shutdown may come first.
  CHECK(StallInspector(60s, 0s).judge(ranks, members).say == StallSay::warning);
  CHECK(StallInspector(0s, 60s).judge(ranks, members).say == StallSay::shutdown);
  CHECK(StallInspector(0s, 91s).judge(ranks, members).say == StallSay::nothing);
  CHECK(StallInspector(60s, 30s).judge(ranks, members).say == StallSay::shutdown);
}

TEST_CASE("a check that is off hears nothing", "[stall]") {
  StallInspector off(0s, 0s);
  off.noticed(UINT64_MAX, TimePoint{});
  CHECK_FALSE(off.next_deadline());
  StallInspector only_shutdown(0s, 90s);
  only_shutdown.noticed(89'999, TimePoint{});
  CHECK_FALSE(only_shutdown.next_deadline());
  only_shutdown.noticed(90'000, TimePoint{});
  CHECK(only_shutdown.next_deadline());
}

}  // namespace
}  // namespace hvdrun
