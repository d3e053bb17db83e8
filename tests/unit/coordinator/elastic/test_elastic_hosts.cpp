// Hosts of an elastic job that are lost, and come back.
#include "tests/unit/coordinator/elastic/elastic_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST_CASE_METHOD(ElasticFixture, "a lost host's ranks are left out", "[elastic]") {
  run();
  lose(3);
  lose(3);
  CHECK(did() == "start 3");
  CHECK(lines.at(1) == "rank 3 was killed; it is started again in 1 s");
  CHECK(job.state_of(3) == SlotState::gone);
  job.host_lost({2, 3}, "host b is lost", false, now);
  CHECK(job.state_of(2) == SlotState::left_out);
  CHECK(job.state_of(3) == SlotState::left_out);
  CHECK(did().empty());
  CHECK(lines == Lines{"host b is lost; its ranks are not started again"});
  wait(9s);
  come({2, 3});
  CHECK(did().empty());
  come({0, 1});
  CHECK(did() == "begin 0 1");
}

TEST_CASE_METHOD(ElasticFixture, "a lost host's ranks are started again when it is back",
                 "[elastic]") {
  run();
  job.host_lost({2, 3}, "host b is lost", true, now);
  CHECK(job.state_of(2) == SlotState::away);
  CHECK(did().empty());
  CHECK(lines == Lines{"host b is lost; its ranks are started again when it answers"});
  come({0, 1});
  CHECK(did() == "begin 0 1");
  job.opened(now);
  wait(1h);
  CHECK(did().empty());
  SECTION("all of them") {
    job.host_back(1, now);
    CHECK(did() == "start 2; start 3");
    CHECK(job.start_of(2) == 1);
    come({3, 2});
    CHECK(did() == "ask");
    come({0, 1});
    CHECK(did() == "begin 0 1 2 3");
  }
  SECTION("a loss of one of them is a loss as any") {
    job.host_back(1, now);
    did();
    lose(3);
    CHECK(did() == "start 3");
  }
  SECTION("the host may be lost as they start") {
    job.host_back(1, now);
    did();
    job.host_lost({2, 3}, "host b is lost", true, now);
    CHECK(did().empty());
    job.host_back(1, now);
    CHECK(did() == "start 2; start 3");  // the first loss was an hour ago
  }
  SECTION("not for ever") {
    for (int times = 0; times < 2; ++times) {
      CHECK(job.state_of(2) == SlotState::away);
      job.host_back(1, now);
      wait(1s);
      CHECK(job.state_of(2) == SlotState::starting);
      job.host_lost({2, 3}, "host b is lost", true, now);
    }
    CHECK(job.state_of(2) == SlotState::away);
    job.host_back(1, now);
    wait(1s);
    job.host_lost({2, 3}, "host b is lost", true, now);
    CHECK(job.state_of(2) == SlotState::left_out);
    did();
    CHECK(lines.back() == "host b is lost; its ranks are not started again");
  }
  SECTION("a slot whose next process has not started yet loses none") {
    job.host_back(1, now);
    for (int times = 0; times < 3; ++times) {
      wait(2s);
      lose(3);
    }
    CHECK(job.state_of(3) == SlotState::left_out);
    lose(2);
    lose(2);
    CHECK(job.state_of(2) == SlotState::gone);
    job.host_lost({2, 3}, "host b is lost", true, now);
    CHECK(job.state_of(2) == SlotState::away);
    CHECK(job.state_of(3) == SlotState::left_out);
    job.host_back(1, now);
    did();
    wait(1s);
    CHECK(did() == "start 2");
  }
  SECTION("those that were done are not") {
    finish(1);
    CHECK(job.state_of(1) == SlotState::done);
    job.host_lost({0, 1}, "host a is lost", true, now);
    CHECK(did() == "all lost 0");
  }
}

TEST_CASE_METHOD(ThreeAtLeast, "a host that is away is waited for where ranks are too few",
                 "[elastic]") {
  run();
  job.host_lost({2, 3}, "host b is lost", true, now);
  come({0, 1});
  CHECK(did().empty());
  wait(10s);
  did();
  CHECK(lines ==
        Lines{"there are 2 ranks of the 3 that --min-np asks for: slot 2, 3 is waited for, "
              "for 50 s at most"});
  SECTION("it comes") {
    job.host_back(1, now);
    CHECK(did() == "start 2; start 3");
    come({2});
    CHECK(did() == "begin 0 1 2");
  }
  SECTION("it does not") {
    wait(50s);
    CHECK(did() == "too few");
  }
  SECTION("another host has the same fate") {
    job.host_lost({0, 1}, "host a is lost", true, now);
    CHECK(did() == "all lost 2");
    job.host_back(1, now);
    CHECK(did().empty());
  }
}

TEST_CASE_METHOD(ElasticFixture, "ranks that are done stay so when their host is lost",
                 "[elastic]") {
  run();
  finish(2);
  finish(3);
  job.host_lost({2, 3}, "host b is lost", false, now);
  CHECK(job.state_of(2) == SlotState::done);
  CHECK(did().empty());
  CHECK_FALSE(job.next_deadline());  // nobody gathers for that
  finish(0);
  finish(1);
  CHECK(did() == "finished");
}

}  // namespace
}  // namespace hvdrun
