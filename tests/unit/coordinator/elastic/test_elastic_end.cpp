// An elastic job that has too few ranks, and how one ends.
#include "tests/unit/coordinator/elastic/elastic_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST_CASE_METHOD(ThreeAtLeast, "with too few ranks a job waits for more, and says so",
                 "[elastic]") {
  run();
  lose(3);
  lose(2);
  CHECK(did() == "start 3; start 2");
  now += 5s;
  come({0, 1});
  CHECK(did().empty());
  CHECK(lines.empty());
  for (const char* const left : {"50 s", "40 s", "30 s"}) {
    CHECK(job.next_deadline() == now + 10s);
    wait(10s);
    CHECK(did().empty());
    CHECK(lines ==
          Lines{"there are 2 ranks of the 3 that --min-np asks for: slot 2, 3 is waited for, for " +
                std::string(left) + " at most"});
  }
  SECTION("a newcomer lets it go on") {
    come({3});
    CHECK(did() == "begin 0 1 3");
    CHECK_FALSE(job.next_deadline());
  }
  SECTION("nobody comes in time") {
    wait(29'999ms);
    CHECK(did().empty());
    wait(1ms);
    CHECK(did() == "too few");
    CHECK(end == "there are 2 ranks of the 3 that --min-np asks for: slot 2, 3 is waited for");
    CHECK(job.is_over());
    CHECK_FALSE(job.next_deadline());
  }
  SECTION("a newcomer that fails is started again meanwhile, in the same time") {
    lose(3);
    CHECK(did().empty());
    wait(1s);
    CHECK(did() == "start 3");
    wait(29s);
    CHECK(did() == "too few");
  }
  SECTION("a member that is lost meanwhile is waited for, too") {
    lose(1);
    CHECK(did() == "start 1");
    come({2, 3});
    CHECK(did() == "begin 0 2 3");
  }
  SECTION("a member that gives its door up is named, and killed in the same time") {
    job.at_door(1, false, now);
    wait(10s);
    CHECK(did().empty());
    CHECK(
        lines ==
        Lines{"rank 1 has not come yet to meet the others, who wait for it; in 20 s it is killed"});
    wait(20s);
    CHECK(did() == "end 1");
    CHECK_FALSE(job.next_deadline());
    lose(1);
    CHECK(did() == "start 1; too few");
  }
}

TEST_CASE_METHOD(ThreeAtLeast, "when nobody is left who could come the job does not wait",
                 "[elastic]") {
  run();
  SECTION("their host is lost") {
    job.host_lost({2, 3}, "host b is lost", false, now);
    CHECK(did().empty());
    CHECK(lines == Lines{"host b is lost; its ranks are not started again"});
    come({0, 1});
  }
  SECTION("they have failed too often") {
    for (int times = 0; times < 3; ++times) {
      lose(2);
      lose(3);
      wait(1s);
    }
    CHECK(job.state_of(2) == SlotState::left_out);
    did();
    come({0, 1});
  }
  CHECK(did() == "too few");
  CHECK(end == "there are 2 ranks of the 3 that --min-np asks for: nobody is left who could come");
}

TEST_CASE_METHOD(ThreeAtLeast, "the last who could come fails: the job does not wait longer",
                 "[elastic]") {
  run();
  lose(3);
  job.host_lost({2}, "host b is lost", false, now);
  come({0, 1});
  did();
  lose(3);
  wait(1s);
  CHECK(did() == "start 3");
  lose(3);
  CHECK(did() == "too few");
}

TEST_CASE_METHOD(ThreeAtLeast, "ranks that are done are not missed", "[elastic]") {
  run();
  finish(3);
  CHECK(job.state_of(3) == SlotState::done);
  finish(2);
  CHECK(did().empty());
  come({1, 0});
  CHECK(did() == "begin 0 1");
}

TEST_CASE_METHOD(ElasticFixture, "a rank that says goodbye and exits is done, and no loss",
                 "[elastic]") {
  run();
  job.leaves(3, now);
  CHECK(job.state_of(3) == SlotState::leaving);
  job.done(3, now);
  CHECK(job.state_of(3) == SlotState::done);
  CHECK_FALSE(job.next_deadline());
  lose(2);
  come({0, 1});
  CHECK(did() == "start 2; begin 0 1");
  CHECK(lines.size() == 1);
}

TEST_CASE_METHOD(ElasticFixture, "who has said goodbye is waited for for a moment", "[elastic]") {
  run();
  job.leaves(3, now);
  lose(2);
  CHECK(did() == "start 2");
  now += 200ms;
  come({0, 1});
  CHECK(did().empty());
  CHECK(job.next_deadline() == now + 800ms);
  SECTION("it does neither come back nor end") {
    wait(799ms);
    CHECK(did().empty());
    wait(1ms);
    CHECK(did() == "begin 0 1");
    SECTION("and is of no epoch when it ends") { job.done(3, now); }
    SECTION("and comes as a newcomer when it comes back") {
      come({3});
      CHECK(did().empty());
      job.opened(now);
      wait(ElasticJob::kTogether);
      CHECK(did() == "ask");
      finish(0);
      finish(1);
      CHECK(did() == "finished");
    }
  }
  SECTION("it comes back") {
    come({3});
    CHECK(did() == "begin 0 1 3");
  }
  SECTION("it ends") {
    job.done(3, now);
    CHECK(did() == "begin 0 1");
  }
  SECTION("another gives its door up") {
    job.at_door(1, false, now);
    wait(800ms);
    CHECK(did().empty());
    CHECK(job.next_deadline() == now + 9s);
    come({1});
    CHECK(did() == "begin 0 1");
  }
}

TEST_CASE_METHOD(ThreeAtLeast, "with too few ranks those are waited for that have said goodbye",
                 "[elastic]") {
  run();
  job.leaves(3, now);
  job.host_lost({2}, "host b is lost", false, now);
  come({0, 1});
  wait(1s);
  wait(1s);
  CHECK(did().empty());
  SECTION("one comes back") {
    come({3});
    CHECK(did() == "begin 0 1 3");
  }
  SECTION("one ends, and is not missed") {
    job.done(3, now);
    CHECK(did() == "too few");  // but the other is
  }
}

TEST_CASE_METHOD(ElasticFixture, "a rank that is lost after its goodbye is lost", "[elastic]") {
  run();
  job.leaves(3, now);
  lose(3);
  CHECK(did() == "start 3");
  CHECK(lines == Lines{"rank 3 was killed; it is started again"});
  come({0, 1, 2});
  CHECK(did() == "begin 0 1 2");
}

TEST_CASE_METHOD(ElasticFixture, "the job ends well when all members are done", "[elastic]") {
  run();
  SECTION("all of them") {
    for (const std::uint32_t slot : {0U, 1U, 2U}) finish(slot);
    job.leaves(3, now);
    CHECK(did().empty());
    job.done(3, now);
  }
  SECTION("a newcomer waits to be let in") {
    lose(3);
    come({0, 1, 2});
    CHECK(did() == "start 3; begin 0 1 2");
    job.opened(now);
    come({3});
    CHECK(did() == "ask");
    for (const std::uint32_t slot : {0U, 1U, 2U}) finish(slot);
  }
  SECTION("a newcomer has not come yet") {
    lose(3);
    come({0, 1, 2});
    job.opened(now);
    CHECK(did() == "start 3; begin 0 1 2");
    for (const std::uint32_t slot : {0U, 1U, 2U}) finish(slot);
  }
  CHECK(did() == "finished");
  CHECK(job.is_over());
}

TEST_CASE_METHOD(ElasticFixture, "the last member's loss ends the job, for the first one's cause",
                 "[elastic]") {
  run();
  SECTION("all at once") {
    for (const std::uint32_t slot : {2U, 3U, 1U}) lose(slot);
    CHECK(did() == "start 2; start 3; start 1");
    lose(0);
    CHECK(did() == "all lost 2");
    CHECK(lines.empty());  // the verdict tells of it
  }
  SECTION("a newcomer has nobody to go on with") {
    lose(3);
    come({3, 0});
    lose(1);
    lose(2);
    CHECK(did() == "start 3; start 1; start 2; begin 0 3");
    job.opened(now);
    lose(3);
    come({1, 2});
    CHECK(did().empty());
    lose(0);
    CHECK(did() == "all lost 3");
  }
  SECTION("what was lost before they have met again is past") {
    lose(3);
    come({0, 1, 2});
    job.opened(now);
    CHECK(did() == "start 3; begin 0 1 2");
    lose(1);
    lose(2);
    lose(0);
    CHECK(did() == "start 1; start 2; all lost 1");
  }
  SECTION("the others have said goodbye before") {
    for (const std::uint32_t slot : {0U, 1U, 2U}) job.leaves(slot, now);
    lose(3);
    CHECK(did().empty());
    CHECK_FALSE(job.next_deadline());
    job.done(0, now);
    job.done(1, now);
    CHECK(did().empty());
    job.done(2, now);
    CHECK(did() == "all lost 3");
  }
  CHECK(job.is_over());
}

TEST_CASE_METHOD(ElasticFixture, "while all are about to end nobody wants to be called",
                 "[elastic]") {
  run();
  lose(3);
  wait(0s);
  lose(3);  // and the next start has its time
  CHECK(did() == "start 3");
  for (const std::uint32_t slot : {0U, 1U, 2U}) job.leaves(slot, now);
  CHECK_FALSE(job.next_deadline());
  wait(1h);
  CHECK(did().empty());
}

TEST_CASE_METHOD(ElasticFixture, "who comes back after its goodbye is let in again", "[elastic]") {
  run();
  job.leaves(3, now);
  come({3});
  CHECK(did() == "ask");
  SECTION("with members") {
    come({0, 1, 2});
    CHECK(did() == "begin 0 1 2 3");
  }
  SECTION("with others that have come back") {
    for (const std::uint32_t slot : {1U, 2U, 0U}) job.leaves(slot, now);
    CHECK(did().empty());
    come({2, 1});
    CHECK(did().empty());
    SECTION("all") { come({0}); }
    SECTION("all but one that is done") { job.done(0, now); }
    CHECK(did() == (job.state_of(0) == SlotState::done ? "begin 1 2 3" : "begin 0 1 2 3"));
    CHECK_FALSE(job.is_over());
  }
  SECTION("with a newcomer, who knows less and comes behind it") {
    lose(2);
    for (const std::uint32_t slot : {0U, 1U}) finish(slot);
    CHECK(did() == "start 2");
    come({2});
    CHECK(did() == "begin 3 2");
  }
}

TEST_CASE_METHOD(ElasticFixture, "before all have said so a job neither ends nor forgets",
                 "[elastic]") {
  for (const std::uint32_t slot : {0U, 1U, 2U}) job.entered(slot);
  job.opened(now);
  SECTION("a goodbye that comes before the last one's word") {
    finish(3);
    finish(0);
    job.leaves(1, now);
    job.entered(3);
    CHECK(job.goes_on());
    CHECK(did().empty());
    job.done(1, now);
    CHECK(did().empty());
    finish(2);
    CHECK(did() == "finished");
  }
  SECTION("all end: that is not for it to judge") {
    for (std::uint32_t slot = 0; slot < 4; ++slot) finish(slot);
    CHECK(did().empty());
    CHECK_FALSE(job.is_over());
  }
  SECTION("all join again, those that are done left out") {
    job.leaves(3, now);
    finish(2);
    come({0, 1});
    CHECK(did().empty());  // the other may come, too
    come({3});
    CHECK(did() == "begin 0 1 3");
  }
}

TEST_CASE_METHOD(ElasticFixture, "after the end nothing is decided", "[elastic]") {
  run();
  for (std::uint32_t slot = 0; slot < 4; ++slot) lose(slot);
  CHECK(did() == "start 0; start 1; start 2; all lost 0");
  come({0, 1});
  lose(0);
  lose(1);
  job.host_lost({2, 3}, "host b is lost", false, now);
  job.opened(now);
  wait(1h);
  CHECK(did().empty());
  CHECK(lines.empty());
}

TEST_CASE("a member is late sooner where the stall check would end it sooner", "[elastic]") {
  ElasticJob job({{{"a", 3}}, 3}, 2, 60s, 5s);
  TimePoint now{1000s};
  for (const std::uint32_t slot : {0U, 1U, 2U}) job.entered(slot);
  job.opened(now);
  job.lost(1, "was killed", now);
  job.at_door(0, true, now);
  job.take_decisions();
  CHECK(job.next_deadline() == now + 5s);
  job.tick(now + 5s);
  const auto decisions = job.take_decisions();
  REQUIRE(decisions.size() == 2);
  CHECK(decisions[0].text ==
        "rank 2 has not come to meet the others for 5 s (--stall-check-shutdown-time-seconds), and "
        "is killed");
  CHECK(decisions[1].slot == 2);
}

}  // namespace
}  // namespace hvdrun
