// Waits in hvd::init and in Horovod's init, and what becomes of the job.

#include "tests/catch.h"
#include "tests/unit/coordinator/job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;

TEST_CASE_METHOD(JobFixture, "a rank that ends well while others wait in init is the cause",
                 "[job]") {
  run();
  from_agent(0, FenceEnter{0, {0, 1}, ""});
  CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::ending);
  exit(0, ExitKind::exited, 1, true);
  exit(1, ExitKind::exited, 1, true);
  const JobEnded verdict = job.verdict();
  CHECK(verdict.cause == EndCause::early_exit);
  CHECK(verdict.rank == 2);
  CHECK(verdict.exit_code == 81);
  CHECK(verdict.text == "waited for in hvd::init by rank 0, 1");
}

TEST_CASE_METHOD(JobFixture, "a rank that ended well before others came to init is the cause",
                 "[job]") {
  run();
  CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::running);
  SECTION("to the fence") { from_agent(0, FenceEnter{0, {0, 1}, ""}); }
  SECTION("to their agent: they have to meet before") { from_agent(0, RanksJoined{{0, 1}}); }
  SECTION("not all come: those that may are waited for a moment") {
    from_agent(0, RanksJoined{{1}});
    CHECK(job.state() == JobState::running);
    REQUIRE(job.next_deadline());
    CHECK(*job.next_deadline() == now + 500ms);
    from_agent(0, RanksJoined{{0}});
  }
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::early_exit);
  CHECK(job.verdict().rank == 2);
  CHECK(job.verdict().text == "waited for in hvd::init by rank 0, 1");
}

TEST_CASE_METHOD(JobFixture, "a rank that others never stop waiting for ends well: soon said",
                 "[job]") {
  run();
  from_agent(0, RanksJoined{{0}});
  CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::running);
  job.tick(now + 499ms);
  CHECK(job.state() == JobState::running);
  job.tick(now + 500ms);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().rank == 2);
  CHECK(job.verdict().text == "waited for in hvd::init by rank 0");
}

TEST_CASE_METHOD(JobFixture, "who has joined waits, though it is not in the fence yet", "[job]") {
  run();
  from_agent(0, RanksJoined{{0, 1}});
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + 10s);
  SECTION("it is said for whom, and ends the job in time") {
    job.tick(now + 10s);
    const auto warnings = take_all<Log>(Target::driver);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].second.text == "2 ranks wait in hvd::init since 10 s for rank 2");
    job.tick(now + 60s);
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().text == "rank 2 never reached hvd::init");
  }
  SECTION("one whose time is over is not to blame") {
    from_agent(0, RankTrouble{0, Errc::timeout, "hvd::init(): waited 30 s for rank 2"});
    CHECK(exit(0, ExitKind::exited, 9) == Errc::ok);
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().text == "rank 2 never reached hvd::init");
  }
  SECTION("nor is one whose time is over next, the first being gone") {
    from_agent(0, RankTrouble{0, Errc::timeout, "hvd::init(): waited 30 s for rank 2"});
    from_agent(0, RankLeft{0, false});
    from_agent(0, RankTrouble{1, Errc::timeout, "hvd::init(): waited 30 s for rank 2"});
    CHECK(exit(1, ExitKind::exited, 9) == Errc::ok);
    CHECK(job.verdict().text == "rank 2 never reached hvd::init");
  }
}

TEST_CASE_METHOD(JobFixture, "the next init is watched like the first", "[job]") {
  run();
  from_agent(0, RanksJoined{{0, 1}});
  from_agent(1, RanksJoined{{2}});
  from_agent(0, FenceEnter{0, {0, 1}, ""});
  from_agent(1, FenceEnter{0, {2}, ""});
  CHECK_FALSE(job.next_deadline());
  for (std::uint32_t rank = 0; rank < 3; ++rank) from_agent(rank / 2, RankLeft{rank, true});
  CHECK_FALSE(job.next_deadline());
  from_agent(0, RanksJoined{{0, 1}});
  take();
  SECTION("a rank that does not come again is missed") {
    job.tick(now + 10s);
    const auto warnings = take_all<Log>(Target::driver);
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0].second.text == "2 ranks wait in hvd::init since 10 s for rank 2");
    job.tick(now + 60s);
    CHECK(job.verdict().text == "rank 2 never reached hvd::init");
  }
  SECTION("a rank that has ended is the cause") {
    CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
    CHECK(job.verdict().cause == EndCause::early_exit);
    CHECK(job.verdict().text == "waited for in hvd::init by rank 0, 1");
  }
}

TEST_CASE_METHOD(JobFixture, "who waits in init for whom is said, and ends the job in time",
                 "[job]") {
  run();
  from_agent(0, FenceEnter{0, {0, 1}, ""});
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + 10s);
  job.tick(now + 10s);
  const auto warnings = take_all<Log>(Target::driver);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].second.text == "2 ranks wait in hvd::init since 10 s for rank 2");
  job.tick(now + 19s);
  const auto lines = take_all<Log>(Target::driver);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].second.text == "  rank 2 on b (pid 1002): its host has not answered");
  job.tick(now + 60s);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::never_joined);
  CHECK(job.verdict().exit_code == 80);
  CHECK(job.verdict().text == "rank 2 never reached hvd::init");
}

TEST_CASE_METHOD(JobFixture, "who came to init since somebody waits is counted as well", "[job]") {
  run();
  from_agent(0, FenceEnter{0, {1}, ""});
  from_agent(0, FenceEnter{0, {0}, ""});
  job.tick(now + 10s);
  const auto warnings = take_all<Log>(Target::driver);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].second.text == "2 ranks wait in hvd::init since 10 s for rank 2");
}

TEST_CASE_METHOD(JobFixture, "a Horovod rank that never comes to init is the cause", "[job]") {
  run();
  job.horovod_gathering({0, 1}, {2}, now);
  job.tick(now + 10s);
  const auto warnings = take_all<Log>(Target::driver);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].second.text == "2 ranks wait in hvd.init since 10 s for rank 2");
  SECTION("found out by Horovod's own time-out in those that waited") {
    from_agent(0, RankTrouble{1, Errc::timeout, "Wait timeout after 30 seconds"});
    CHECK(exit(1, ExitKind::signaled, SIGABRT) == Errc::ok);
    CHECK(job.state() == JobState::ending);
    CHECK(job.verdict().cause == EndCause::never_joined);
    CHECK(job.verdict().exit_code == 80);
    CHECK(job.verdict().text == "rank 2 never reached hvd.init");
  }
  SECTION("who has come is not missing") {
    job.horovod_gathering({}, {}, now + 20s);
    from_agent(0, RankTrouble{1, Errc::timeout, "Wait timeout after 30 seconds"});
    CHECK(exit(1, ExitKind::signaled, SIGABRT) == Errc::ok);
    CHECK(job.verdict().cause == EndCause::rank_failed);
    CHECK(job.verdict().rank == 1);
  }
  SECTION("it ends well meanwhile") {
    CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
    CHECK(job.state() == JobState::ending);
    CHECK(job.verdict().cause == EndCause::early_exit);
    CHECK(job.verdict().rank == 2);
    CHECK(job.verdict().text == "waited for in hvd.init by rank 0, 1");
  }
}

TEST_CASE_METHOD(JobFixture, "a Horovod rank that ended before the others met is the cause",
                 "[job]") {
  run();
  CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::running);
  job.horovod_gathering({0}, {1, 2}, now);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::early_exit);
  CHECK(job.verdict().rank == 2);
}

TEST_CASE_METHOD(JobFixture, "a released fence is watched no longer", "[job]") {
  run();
  from_agent(0, FenceEnter{0, {0, 1}, ""});
  from_agent(1, FenceEnter{0, {2}, ""});
  CHECK_FALSE(job.next_deadline());
  job.tick(now + 100s);
  CHECK(job.state() == JobState::running);
}

}  // namespace
}  // namespace hvdrun
