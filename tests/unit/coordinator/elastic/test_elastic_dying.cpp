// A rank is dead, and its process has not ended yet.
#include "tests/unit/coordinator/elastic/elastic_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST_CASE_METHOD(ElasticFixture, "nobody waits for the end of a dead rank's process", "[elastic]") {
  run();
  die(1);
  CHECK(did().empty());
  CHECK(job.state_of(1) == SlotState::dying);
  come({0, 2, 3});
  CHECK(did() == "begin 0 2 3");
  CHECK(lines == Lines{"rank 1 has died; its process is ending"});
  job.opened(now);
  wait(30s);
  CHECK(did().empty());  // it holds its memory, and its GPU
  lose(3);
  come({0, 2});
  CHECK(did() == "start 3; begin 0 2");
  CHECK(lines == Lines{"rank 2 was killed; it is started again"});  // said once
  job.opened(now);
  lose(1);
  CHECK(did() == "start 1");
  CHECK(lines == Lines{"rank 1 was killed; it is started again"});  // as it was called then
  come({1});
  CHECK(did().empty());  // 3 may come as well
  wait(ElasticJob::kTogether);
  CHECK(did() == "ask");
  come({0, 2});
  CHECK(did() == "begin 0 1 2");
}

TEST_CASE_METHOD(ElasticFixture, "a death is counted once, when the process has ended",
                 "[elastic]") {
  run();
  die(1);
  die(1);
  lose(1);
  CHECK(did() == "start 1");
  CHECK(lines == Lines{"rank 1 was killed; it is started again"});
  die(1);  // a late word on the last process
  CHECK(job.state_of(1) == SlotState::starting);
  come({1, 0, 2, 3});
  CHECK(did() == "begin 0 1 2 3");
}

TEST_CASE_METHOD(ElasticFixture, "what a dead rank has still said changes nothing", "[elastic]") {
  run();
  die(1);
  come({1});
  job.leaves(1, now);
  CHECK(job.state_of(1) == SlotState::dying);
  come({0, 2, 3});
  CHECK(did() == "begin 0 2 3");
}

TEST_CASE_METHOD(ElasticFixture, "a death while the members meet has them meet again",
                 "[elastic]") {
  run();
  lose(3);
  come({0, 1, 2});
  CHECK(did() == "start 3; begin 0 1 2");
  die(2);
  come({0, 1});
  CHECK(did() == "begin 0 1");
}

TEST_CASE_METHOD(ElasticFixture, "a rank that dies at its door is no member any more",
                 "[elastic]") {
  run();
  lose(3);
  come({0, 1});
  die(1);
  come({2});
  CHECK(did() == "start 3; begin 0 2");
}

TEST_CASE_METHOD(ElasticFixture, "with all ranks dead the first end of a process is the verdict",
                 "[elastic]") {
  run();
  for (const std::uint32_t slot : {2U, 0U, 1U, 3U}) die(slot);
  CHECK(did().empty());
  for (const std::uint32_t slot : {0U, 3U, 1U}) lose(slot);
  CHECK(did().empty());
  lose(2);
  CHECK(did() == "all lost 2");
  CHECK(job.is_over());
}

TEST_CASE("too few ranks wait for one that is not gone yet", "[elastic]") {
  ElasticFixture fixture(4);
  fixture.run();
  fixture.die(1);
  fixture.come({0, 2, 3});
  CHECK(fixture.did().empty());
  fixture.wait(10s);
  CHECK(fixture.did().empty());
  CHECK(fixture.lines == Lines{"there are 3 ranks of the 4 that --min-np asks for: slot 1 is "
                               "waited for, for 50 s at most"});
  fixture.lose(1);
  CHECK(fixture.did() == "start 1");
  fixture.come({1});
  CHECK(fixture.did() == "begin 0 1 2 3");
}

TEST_CASE_METHOD(ElasticFixture, "a host is lost with a rank that was dying", "[elastic]") {
  run();
  die(2);
  job.host_lost({2, 3}, "host b is lost", false, now);
  CHECK(job.state_of(2) == SlotState::left_out);
  come({0, 1});
  CHECK(did() == "begin 0 1");
}

}  // namespace
}  // namespace hvdrun
