// The ends of elastic jobs, and what they do before all ranks have said that they go on.
#include <algorithm>

#include "common/base/exit_code.h"
#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;
using Slots = std::vector<std::uint32_t>;
using Lines = std::vector<std::string>;

TEST_CASE_METHOD(ElasticJobFixture, "before all are in elastic::run a loss ends the job", "[job]") {
  run();
  meet();
  enter({0, 2});
  take();
  kill(2);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::rank_failed);
  CHECK(job.verdict().rank == 2);
  const auto sent = take();
  REQUIRE(sent.size() == 3);
  CHECK(read<Log>(sent[0]).text ==
        "the others could have gone on if all ranks had been in hvd::elastic::run");
  CHECK(sent[1].frame.type == MessageType::kill_ranks);
}

TEST_CASE_METHOD(ElasticJobFixture, "goodbyes of all, and exits without an error, are a success",
                 "[job]") {
  run_elastic();
  for (const std::uint32_t slot : {1U, 2U, 0U}) {
    CHECK(job.state() == JobState::running);
    finish(slot);
  }
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::success);
  CHECK(job.verdict().exit_code == 0);
  const auto sent = take();
  CHECK(std::count_if(sent.begin(), sent.end(), [](const Sent& one) {
          return one.frame.type == MessageType::start_slot || one.frame.type == MessageType::log;
        }) == 0);
}

TEST_CASE_METHOD(ElasticJobFixture,
                 "a newcomer that waits is ended with the job, which is a success", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  meet();
  come_anew(2);
  take();
  finish(0);
  finish(1);
  CHECK(job.state() == JobState::ending);
  CHECK(take_all<KillRanks>().size() == 2);
  CHECK(say(2, RankExited{2, 2002, ExitKind::signaled, SIGTERM, true, false, {}}) == Errc::ok);
  CHECK(job.state() == JobState::ended);
  const auto verdicts = take_all<JobEnded>(Target::driver);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].second.cause == EndCause::success);
  CHECK(verdicts[0].second.exit_code == 0);
}

TEST_CASE_METHOD(ElasticJobFixture, "when all are lost the first of them is the cause", "[job]") {
  run_elastic();
  end(1, ExitKind::exited, 7);
  kill(2);
  CHECK(job.state() == JobState::running);
  kill(0);
  CHECK(job.verdict().cause == EndCause::rank_failed);
  CHECK(job.verdict().rank == 1);
  CHECK(job.verdict().exit_code == 7);
  // Slots that have just been started again end, too.
  CHECK(job.state() == JobState::ending);
  for (const std::uint32_t slot : {1U, 2U})
    CHECK(say(slot, RankExited{slot, 9, ExitKind::signaled, SIGTERM, true, false, {}}) == Errc::ok);
  CHECK(job.state() == JobState::ended);
}

TEST_CASE_METHOD(ElasticJobFixture, "losses from which the ranks have recovered are no cause",
                 "[job]") {
  run_elastic();
  end(1, ExitKind::exited, 7);
  come({0, 2});
  meet();
  kill(2);
  kill(0);
  CHECK(job.verdict().rank == 2);
  CHECK(job.verdict().exit_code == 137);
}

TEST_CASE_METHOD(ElasticJobFixture, "too few ranks end the job, with a code of their own",
                 "[job]") {
  run_elastic();
  kill(2);
  kill(1);
  come({0});
  take();
  now += 10s;
  job.tick(now);
  CHECK(lines() ==
        Lines{"there is 1 rank of the 2 that --min-np asks for: slot 1, 2 is waited for, "
              "for 10 s at most"});
  now += 10s;
  job.tick(now);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::too_few_ranks);
  CHECK(job.verdict().exit_code == exit_code::kTooFewRanks);
  CHECK(job.verdict().text ==
        "there is 1 rank of the 2 that --min-np asks for: slot 1, 2 is waited for");
  CHECK(take_all<KillRanks>().size() == 2);
}

TEST_CASE_METHOD(ElasticJobFixture, "a host is lost, and the others go on without it", "[job]") {
  run_elastic();
  job.agent_lost(1, "its agent is gone", now);
  CHECK(job.state() == JobState::running);
  const auto sent = take();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].host == 0);
  CHECK(read<PeerLost>(sent[0]).rank == 2);
  CHECK(read<PeerLost>(sent[0]).reason == "host b is lost (its agent is gone)");
  CHECK(read<Log>(sent[1]).text ==
        "host b is lost (its agent is gone); its ranks are not started again");
  come({0, 1});
  const auto begun = take_all<BeginEpoch>();
  REQUIRE(begun.size() == 1);
  CHECK(begun[0].first == 0);
  meet();
  SECTION("to a good end") {
    finish(0);
    finish(1);
    CHECK(job.state() == JobState::ended);
    CHECK(job.verdict().cause == EndCause::success);
  }
  SECTION("and a loss more is too much") {
    kill(0);
    kill(1);
    CHECK(job.verdict().cause == EndCause::rank_failed);
    CHECK(job.verdict().rank == 0);
  }
}

TEST_CASE_METHOD(ElasticJobFixture, "the host of all who are left is the cause when it is lost",
                 "[job]") {
  run_elastic();
  SECTION("all are lost with hosts") {
    job.agent_lost(0, "its agent is gone", now);
    CHECK(job.state() == JobState::running);
    job.agent_lost(1, "no answer", now);
    CHECK(job.verdict().host == "a");
    CHECK(job.verdict().text == "its agent is gone");
    CHECK(job.state() == JobState::ended);
  }
  SECTION("the others are done") {
    finish(2);
    job.agent_lost(0, "its agent is gone", now);
    CHECK(job.verdict().host == "a");
    CHECK(job.state() == JobState::ended);
  }
  CHECK(job.verdict().cause == EndCause::host_lost);
  CHECK(job.verdict().exit_code == 69);
}

TEST_CASE_METHOD(ElasticJobFixture, "a host whose ranks are done may go", "[job]") {
  run_elastic();
  finish(2);
  take();
  job.agent_lost(1, "its agent is gone", now);
  CHECK(take().empty());
  kill(1);
  CHECK(take_all<StartSlot>().size() == 1);
  finish(0);
  CHECK(job.verdict().cause == EndCause::rank_failed);
  CHECK(job.verdict().rank == 1);
}

// The words of the agents may come in any order.
TEST_CASE_METHOD(ElasticJobFixture, "a goodbye that comes before another's word is one", "[job]") {
  run();
  meet();
  enter({2, 0});
  SECTION("and so is an end") {
    finish(2);
    enter({1});
    finish(0);
    finish(1);
  }
  SECTION("the end comes after it") {
    CHECK(say(2, RankLeft{2, true, false}) == Errc::ok);
    enter({1});
    CHECK(end(2, ExitKind::exited, 0) == Errc::ok);
    CHECK(lines().empty());
    finish(1);
    finish(0);
  }
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::success);
}

TEST_CASE_METHOD(ElasticJobFixture, "programs without elastic::run may join again", "[job]") {
  run();
  meet();
  for (const std::uint32_t slot : {0U, 1U, 2U})
    CHECK(say(slot, RankLeft{slot, true, false}) == Errc::ok);
  SECTION("all of them") {
    come({2, 0});
    CHECK(job.membership().epoch() == 1);
    come({1});
    CHECK(job.membership().epoch() == 2);
    meet();
    CHECK(job.state() == JobState::running);
    for (const std::uint32_t slot : {0U, 1U, 2U}) finish(slot);
    CHECK(job.state() == JobState::ended);
    CHECK(job.verdict().cause == EndCause::success);
  }
  SECTION("one that does not is named, and ended at last") {
    come({2, 0});
    take();
    REQUIRE(job.next_deadline());
    CHECK(*job.next_deadline() == now + 10s);
    job.tick(now + 10s);
    CHECK(lines().size() == 1);
    job.tick(now + 20s);
    CHECK(take_all<EndSlot>().size() == 1);
    kill(1);
    CHECK(job.verdict().cause == EndCause::rank_failed);
    CHECK(job.verdict().rank == 1);
  }
  SECTION("one that has ended is waited for in vain, as ever") {
    CHECK(end(2, ExitKind::exited, 0) == Errc::ok);
    come({0, 1});
    REQUIRE(job.membership().order() == Slots{0, 1});
    CHECK(say(0, RanksJoined{{0, 1}}) == Errc::ok);
    CHECK(job.verdict().cause == EndCause::early_exit);
    CHECK(job.verdict().rank == 2);
    CHECK(job.verdict().text == "waited for in hvd::init by rank 0, 1");
  }
}

TEST_CASE_METHOD(JobFixture, "a job without --min-np knows no elastic words", "[job]") {
  run();
  CHECK(from_agent(0, ElasticEntered{0}) == Errc::ok);
  CHECK(from_agent(0, ElasticEntered{1}) == Errc::ok);
  CHECK(from_agent(1, ElasticEntered{2}) == Errc::ok);
  CHECK(from_agent(0, AtDoor{0, true}) == Errc::unexpected_message);
  CHECK(from_agent(0, RankLeft{0, true, true}) == Errc::ok);
  CHECK(from_agent(0, StorePut{1, "key", "value"}, 0) == Errc::wrong_epoch);
  CHECK(take().empty());
  exit(2, ExitKind::signaled, SIGKILL);
  CHECK(job.state() == JobState::ending);
  CHECK(take_all<Log>(Target::driver).empty());
}

TEST_CASE_METHOD(ElasticJobFixture, "a host that does not start its slot again is lost", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  meet();
  take();
  REQUIRE(job.next_deadline());
  now += job.spec().start_timeout;
  job.tick(now);
  CHECK(job.state() == JobState::running);
  const auto said = lines();
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("host b is lost (its agent has not started slot 2 again") == 0);
  finish(0);
  finish(1);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::success);
}

TEST_CASE_METHOD(ElasticJobFixture, "the verdict says whether its numbers are ranks or slots",
                 "[job]") {
  run_elastic();
  // Those that have been started again are not needed any more.
  const auto end_all = [this] {
    for (const std::uint32_t slot : {0U, 1U, 2U})
      if (job.membership().ranks()[slot].state != RankState::exited) kill(slot);
  };
  SECTION("of the first epoch") {
    for (const std::uint32_t slot : {0U, 1U, 2U}) kill(slot);
    end_all();
    CHECK_FALSE(job.verdict().by_slot);
  }
  SECTION("of a later one") {
    kill(2);
    come({0, 1});
    meet();
    kill(0);
    kill(1);
    end_all();
    CHECK(job.verdict().rank == 0);
    CHECK(job.verdict().by_slot);
  }
  CHECK(job.state() == JobState::ended);
}

TEST_CASE_METHOD(ElasticJobFixture, "the status of a slot has its rank of the moment", "[job]") {
  turn_around();
  const JobStatus status = job.status(now);
  REQUIRE(status.ranks.size() == 3);
  CHECK(status.ranks[0].rank == 1);
  CHECK(status.ranks[0].takes_part);
  CHECK(status.ranks[2].rank == 0);
  CHECK(status.ranks[2].probe.rank == 2);
  CHECK_FALSE(status.ranks[1].takes_part);
}

}  // namespace
}  // namespace hvdrun
