#include "tests/unit/coordinator/elastic/elastic_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST_CASE_METHOD(ElasticFixture, "a job goes on once all its ranks have said so", "[elastic]") {
  for (const std::uint32_t slot : {3U, 0U, 2U, 0U}) job.entered(slot);
  CHECK_FALSE(job.goes_on());
  job.entered(1);
  CHECK(job.goes_on());
  job.opened(now);
  lose(1);
  come({0, 2, 3});
  CHECK(did() == "start 1; begin 0 2 3");
  CHECK(job.goes_on());  // a newcomer has not said so, and is not asked
}

TEST_CASE_METHOD(ElasticFixture, "a rank that is lost is started again while the others meet",
                 "[elastic]") {
  run();
  CHECK_FALSE(job.next_deadline());
  lose(3);
  CHECK(did() == "start 3");
  CHECK(lines == Lines{"rank 3 was killed; it is started again"});
  CHECK(job.state_of(3) == SlotState::starting);
  CHECK(job.start_of(3) == 1);
  CHECK(job.start_of(0) == 0);
  come({2, 0});
  CHECK(did().empty());
  come({1});
  CHECK(did() == "begin 0 1 2");
  CHECK(job.state_of(2) == SlotState::member);
  CHECK_FALSE(job.next_deadline());
  job.opened(now);
  CHECK(did().empty());
  come({3});
  CHECK(did() == "ask");
  CHECK(job.state_of(3) == SlotState::at_door);
  come({0, 1, 2});
  CHECK(did() == "begin 0 1 2 3");
  CHECK(job.state_of(3) == SlotState::member);
}

TEST_CASE_METHOD(ElasticFixture, "members are named by the ranks of the moment", "[elastic]") {
  run();
  lose(0);
  lose(1);
  come({2, 3});
  CHECK(did() == "start 0; start 1; begin 2 3");
  job.opened(now);
  lose(2);
  CHECK(did() == "start 2");
  CHECK(lines == Lines{"rank 0 was killed; it is started again"});
  come({1});
  lose(0);
  CHECK(did().empty());
  CHECK(lines == Lines{"the new process of slot 0 was killed; it is started again in 1 s"});
  come({3});
  CHECK(did() == "begin 3 1");
}

TEST_CASE_METHOD(ElasticFixture, "a slot that fails again waits, and is left out at last",
                 "[elastic]") {
  run();
  lose(3);
  come({0, 1, 2});
  CHECK(did() == "start 3; begin 0 1 2");
  job.opened(now);
  now += 2s;
  lose(3);  // before it has come to its door
  CHECK(did().empty());
  CHECK(lines == Lines{"the new process of slot 3 was killed; it is started again in 1 s"});
  CHECK(job.state_of(3) == SlotState::gone);
  CHECK(job.next_deadline() == now + 1s);
  wait(999ms);
  CHECK(did().empty());
  wait(1ms);
  CHECK(did() == "start 3");
  CHECK(job.start_of(3) == 2);
  SECTION("the third loss within the window is its last") {
    wait(10min - 3s);
    lose(3);
    CHECK(did().empty());
    CHECK(lines == Lines{"the new process of slot 3 was killed; it is not started again, as that "
                         "was 3 times within 10 minutes"});
    CHECK(job.state_of(3) == SlotState::left_out);
    come({3, 0, 1, 2});
    CHECK(did() == "begin 0 1 2");
    wait(1h);
    CHECK(did().empty());
  }
  SECTION("a loss before the window does not count") {
    wait(10min - 3s + 1ms);
    lose(3);
    CHECK(did().empty());
    CHECK(lines.at(0).ends_with("it is started again in 1 s"));
    wait(1s);
    CHECK(did() == "start 3");
    // Nor do two: it is as new.
    wait(10min);
    lose(3);
    CHECK(did() == "start 3");
  }
}

TEST_CASE_METHOD(ElasticFixture, "members meet anew without a loss, too", "[elastic]") {
  run();
  come({2});
  CHECK(did().empty());
  CHECK(job.next_deadline() == now + 10s);
  come({0, 3, 1});
  CHECK(did() == "begin 0 1 2 3");
}

TEST_CASE_METHOD(ElasticFixture, "nobody meets for a new process with another state", "[elastic]") {
  for (std::uint32_t slot = 0; slot < 4; ++slot) job.entered(slot, "weights of 4 bytes");
  run();
  lose(3);
  come({0, 1, 2});
  CHECK(did() == "start 3; begin 0 1 2");
  job.opened(now);
  job.at_door(3, true, now, "weights\n of 8 bytes");
  wait(1h);
  CHECK(did() == "retire 3");
  CHECK(lines == std::vector<std::string>{
                     "the new process of slot 3 is ended, as it runs another program: its state is "
                     "weights\\n of 8 bytes, that of the ranks weights of 4 bytes"});
  job.at_door(3, false, now);
  CHECK(did().empty());
  // Its end is a loss.
  lose(3);
  CHECK(did() == "start 3");
  // A process that does not tell is let in, and one with the state of any member.
  const auto name = GENERATE("", "weights of 4 bytes");
  job.at_door(3, true, now, name);
  wait(ElasticJob::kTogether);
  CHECK(did() == "ask");
}

TEST_CASE_METHOD(ElasticFixture, "with too many kinds of states nobody is refused", "[elastic]") {
  for (std::size_t i = 0; i < ElasticJob::kMostLayouts; ++i)
    job.entered(0, "state " + std::to_string(i));
  run();
  lose(3);
  come({0, 1, 2});
  job.opened(now);
  did();
  job.at_door(3, true, now, "one more");
  wait(ElasticJob::kTogether);
  CHECK(did() == "ask");
}

TEST_CASE_METHOD(ElasticFixture, "members are asked to meet once in an epoch", "[elastic]") {
  run();
  lose(2);
  lose(3);
  come({0, 1});
  CHECK(did() == "start 2; start 3; begin 0 1");
  job.opened(now);
  come({3});
  wait(ElasticJob::kTogether);
  CHECK(did() == "ask");
  job.at_door(3, false, now);
  come({3, 2});
  wait(1h);
  CHECK(did().empty());
  lose(2);
  CHECK(did() == "start 2");
  come({0, 1});
  CHECK(did() == "begin 0 1 3");
  job.opened(now);
  come({2});
  CHECK(did() == "ask");
}

TEST_CASE_METHOD(ElasticFixture, "newcomers within a moment are let in together", "[elastic]") {
  run();
  lose(2);
  lose(3);
  come({0, 1});
  REQUIRE(did() == "start 2; start 3; begin 0 1");
  job.opened(now);
  come({2});
  CHECK(did().empty());
  CHECK(job.next_deadline() == now + ElasticJob::kTogether);
  SECTION("as soon as all are there") {
    come({3});
    CHECK(did() == "ask");
    CHECK_FALSE(job.next_deadline());
  }
  SECTION("or not with one that takes longer") {
    wait(ElasticJob::kTogether - 1ms);
    CHECK(did().empty());
    wait(1ms);
    CHECK(did() == "ask");
  }
  SECTION("or with a loss, for which nobody waits") {
    lose(1);
    CHECK(did() == "start 1");
    come({0});
    CHECK(did() == "begin 0 2");
  }
  SECTION("and one that leaves its door again starts it anew") {
    wait(500ms);
    job.at_door(2, false, now);
    CHECK_FALSE(job.next_deadline());
    come({2});
    CHECK(job.next_deadline() == now + ElasticJob::kTogether);
  }
}

TEST_CASE_METHOD(ElasticFixture, "who comes while the members meet waits until they have met",
                 "[elastic]") {
  run();
  lose(3);
  SECTION("it comes before the members are at their doors, and is one of them") {
    come({3, 0, 1, 2});
    CHECK(did() == "start 3; begin 0 1 2 3");
  }
  SECTION("it comes while they meet") {
    come({0, 1, 2});
    CHECK(did() == "start 3; begin 0 1 2");
    come({3});
    wait(1h);
    CHECK(did().empty());
    job.opened(now);
    CHECK(did() == "ask");
  }
}

TEST_CASE_METHOD(ElasticFixture, "losses while members gather are of one epoch", "[elastic]") {
  run();
  lose(3);
  now += 30s;
  come({0, 2});
  CHECK(did() == "start 3");
  lose(2);  // at its door
  CHECK(did() == "start 2");
  wait(10s);
  CHECK(did().empty());
  // The time for who is late runs from the first loss on.
  CHECK(lines ==
        Lines{"rank 1 has not come yet to meet the others, who wait for it; in 20 s it is killed"});
  come({1});
  CHECK(did() == "begin 0 1");
}

TEST_CASE_METHOD(ElasticFixture, "an epoch that loses a rank before all have met is given up",
                 "[elastic]") {
  run();
  lose(3);
  come({0, 1, 2});
  CHECK(did() == "start 3; begin 0 1 2");
  lose(2);
  CHECK(did() == "start 2");
  job.opened(now);  // the words of a fence that was before
  come({3, 0});
  CHECK(did().empty());
  come({1});
  CHECK(did() == "begin 0 1 3");
  come({2});
  CHECK(did().empty());
  job.opened(now);
  CHECK(did() == "ask");
}

TEST_CASE_METHOD(ElasticFixture, "who gives its door up is waited for again", "[elastic]") {
  run();
  lose(3);
  CHECK(did() == "start 3");
  come({3, 0, 1});
  job.at_door(0, false, now);
  come({2});
  CHECK(did().empty());
  SECTION("a member") {
    come({0});
    CHECK(did() == "begin 0 1 2 3");
  }
  SECTION("a newcomer does not keep the others") {
    job.at_door(3, false, now);
    CHECK(job.state_of(3) == SlotState::starting);
    come({0});
    CHECK(did() == "begin 0 1 2");
  }
}

TEST_CASE_METHOD(ElasticFixture, "a member that does not come is named, and killed in the end",
                 "[elastic]") {
  run();
  lose(3);
  come({0, 1});
  CHECK(did() == "start 3");
  for (const char* const left : {"50 s", "40 s", "30 s", "20 s", "10 s"}) {
    CHECK(job.next_deadline() == now + 10s);
    wait(9'999ms);
    CHECK(did().empty());
    CHECK(lines.empty());
    wait(1ms);
    CHECK(did().empty());
    CHECK(lines == Lines{"rank 2 has not come yet to meet the others, who wait for it; in " +
                         std::string(left) + " it is killed"});
  }
  wait(10s);
  CHECK(did() == "end 2");
  CHECK(
      lines ==
      Lines{"rank 2 has not come to meet the others for 60 s (--elastic-timeout), and is killed"});
  // Once.
  CHECK_FALSE(job.next_deadline());
  wait(1h);
  CHECK(did().empty());
  CHECK(lines.empty());
  SECTION("its end is a loss") {
    lose(2);
    CHECK(did() == "start 2; begin 0 1");
  }
  SECTION("it comes all the same, a moment before") {
    come({2});
    CHECK(did() == "begin 0 1 2");
    lose(2);
    CHECK(did() == "start 2");
  }
  SECTION("another that gives its door up now is late itself") {
    job.at_door(0, false, now);
    lose(2);
    CHECK(did() == "start 2");
    wait(10s);
    CHECK(did().empty());
    CHECK(
        lines ==
        Lines{"rank 0 has not come yet to meet the others, who wait for it; in 50 s it is killed"});
    wait(50s);
    CHECK(did() == "end 0");
  }
}

TEST_CASE_METHOD(ElasticFixture, "all who are late are named together, and killed one by one",
                 "[elastic]") {
  run();
  come({1});
  wait(10s);
  CHECK(did().empty());
  CHECK(lines == Lines{"rank 0, 2, 3 has not come yet to meet the others, who wait for it; in 50 s "
                       "it is killed"});
  wait(50s);
  CHECK(did() == "end 0; end 2; end 3");
  CHECK(lines.size() == 3);
}

}  // namespace
}  // namespace hvdrun
