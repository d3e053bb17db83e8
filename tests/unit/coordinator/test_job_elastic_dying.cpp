// A rank of an elastic job is dead, and its process has not ended yet.
#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

using Target = Job::Action::Target;
using Lines = std::vector<std::string>;

TEST_CASE_METHOD(ElasticJobFixture, "the others are told of a death at once", "[job]") {
  run_elastic();
  die(2);
  const auto told = take_all<PeerLost>();
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == 0);
  CHECK(told[0].second.rank == 2);
  CHECK_FALSE(told[0].second.clean);
  come({0, 1});
  CHECK(job.membership().epoch() == 2);
  meet();
  take();
  kill(2);
  const auto sent = take();
  REQUIRE(sent.size() == 2);
  CHECK(read<Log>(sent[0]).text == "rank 2 was killed by signal 9 (SIGKILL); it is started again");
  CHECK(read<StartSlot>(sent[1]).slot.rank == 2);
}

TEST_CASE_METHOD(ElasticJobFixture, "a rank that writes a core file is named", "[job]") {
  run_elastic();
  die(2, true);
  CHECK(lines() == Lines{"rank 2 is dumping core; the others go on without it"});
  die(2, true);  // said again
  CHECK(lines().empty());
}

TEST_CASE_METHOD(ElasticJobFixture, "a death ends a meeting that is under way", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  CHECK(say(0, RanksJoined{{0, 1}}) == Errc::ok);
  CHECK(say(0, FenceEnter{0, {0}, ""}) == Errc::ok);
  take();
  die(1);
  CHECK(take_all<FenceFailed>().size() == 2);
}

TEST_CASE_METHOD(ElasticJobFixture, "before all ranks go on a death is no news", "[job]") {
  run();
  meet();
  enter({0, 1});
  take();
  die(2);
  CHECK(take().empty());
  CHECK(job.state() == JobState::running);
  kill(2);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::rank_failed);
  CHECK(job.verdict().rank == 2);
}

TEST_CASE_METHOD(ElasticJobFixture, "with all ranks dead the first cause is that of the first",
                 "[job]") {
  run_elastic();
  for (const std::uint32_t slot : {1U, 0U, 2U}) die(slot);
  CHECK(end(1, ExitKind::exited, 7) == Errc::ok);
  kill(0);
  CHECK(job.state() == JobState::running);
  kill(2);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().rank == 1);
  CHECK(job.verdict().exit_code == 7);
}

TEST_CASE_METHOD(ElasticJobFixture, "agents speak of the deaths of their own slots", "[job]") {
  run_elastic();
  CHECK(from_agent(1, SlotDying{0, false}) == Errc::malformed);
  CHECK(from_agent(1, SlotDying{99, false}) == Errc::malformed);
  CHECK(job.agent_frame(0, Frame{MessageType::slot_dying, 1, "x"}, now) == Errc::malformed);
}

TEST_CASE_METHOD(JobFixture, "only elastic jobs know of deaths before the end of a process",
                 "[job]") {
  run();
  CHECK(from_agent(0, SlotDying{0, false}) == Errc::unexpected_message);
}

TEST_CASE_METHOD(ElasticJobFixture,
                 "an end that comes after the others' next meeting is a cause yet", "[job]") {
  run_elastic();
  die(2);
  come({0, 1});
  CHECK(job.membership().epoch() == 2);
  kill(2);  // its next process is started, and its record begins anew
  kill(0);
  kill(1);
  CHECK(job.verdict().rank == 2);
  CHECK(job.verdict().exit_code == 137);
}

TEST_CASE_METHOD(ElasticJobFixture, "a cause stays when the slot's next process has been started",
                 "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  come_anew(2);
  REQUIRE(job.membership().order() == std::vector<std::uint32_t>{0, 1});
  meet();
  come({0, 1});
  REQUIRE(job.membership().order() == std::vector<std::uint32_t>{0, 1, 2});
  meet();
  kill(2);
  now += std::chrono::seconds(1);
  job.tick(now);
  REQUIRE(say(2, RankStarted{2, 3002}) == Errc::ok);
  finish(0);
  finish(1);
  CHECK(job.verdict().rank == 2);
  CHECK(job.verdict().exit_code == 137);
  CHECK(job.verdict().pid == 2002);
}

TEST_CASE_METHOD(ElasticJobFixture,
                 "the end of a line after that of its process is not the next one's", "[job]") {
  run_elastic();
  const auto state = [this] { return job.membership().ranks()[2].state; };
  kill(2);
  CHECK(state() == RankState::assigned);
  CHECK(say(2, RankLeft{2, false, false}) == Errc::ok);
  CHECK(state() == RankState::assigned);
  CHECK(say(2, RankStarted{2, 2002}) == Errc::ok);
  CHECK(say(2, RankLeft{2, false, false}) == Errc::ok);
  CHECK(state() == RankState::started);
}

}  // namespace
}  // namespace hvdrun
