// Ranks are lost, and the job goes on: what agents and the driver are told.
#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;
using Slots = std::vector<std::uint32_t>;
using Lines = std::vector<std::string>;

// "2:0 0:1": slots with their ranks.
std::string members_text(const std::vector<EpochMember>& all) {
  std::string text;
  for (const EpochMember& one : all)
    text +=
        (text.empty() ? "" : " ") + std::to_string(one.slot) + ":" + std::to_string(one.place.rank);
  return text;
}

TEST_CASE_METHOD(ElasticJobFixture,
                 "a rank is lost: its slot starts again, and the others are told", "[job]") {
  run_elastic();
  kill(2);
  CHECK(job.state() == JobState::running);
  const auto sent = take();
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].host == 0);
  CHECK(read<PeerLost>(sent[0]).rank == 2);
  CHECK_FALSE(read<PeerLost>(sent[0]).clean);
  CHECK(read<PeerLost>(sent[0]).reason == "was killed by signal 9 (SIGKILL)");
  CHECK(sent[1].target == Target::driver);
  CHECK(read<Log>(sent[1]).text == "rank 2 was killed by signal 9 (SIGKILL); it is started again");
  CHECK(sent[2].host == 1);
  CHECK(read<StartSlot>(sent[2]).slot.rank == 2);
  CHECK(read<StartSlot>(sent[2]).start == 1);
  for (const Sent& one : sent) CHECK(one.frame.epoch == 1);
}

TEST_CASE_METHOD(ElasticJobFixture, "once all are at their doors the next epoch begins", "[job]") {
  run_elastic();
  kill(2);
  take();
  come({1});
  CHECK(take().empty());
  come({0});
  CHECK(job.membership().epoch() == 2);
  const auto sent = take();
  REQUIRE(sent.size() == 3);
  for (const Sent& one : sent) CHECK(one.frame.epoch == 2);
  CHECK(sent[0].host == 0);
  const auto here = read<BeginEpoch>(sent[0]).here;
  CHECK(members_text(here) == "0:0 1:1");
  CHECK(here[1].place.size == 2);
  CHECK(here[1].place.local_size == 2);
  CHECK(here[1].place.cross_size == 1);
  CHECK(sent[1].host == 1);
  CHECK(read<BeginEpoch>(sent[1]).here.empty());
  CHECK(sent[2].target == Target::driver);
  CHECK(members_text(read<EpochBegun>(sent[2]).members) == "0:0 1:1");
}

TEST_CASE_METHOD(ElasticJobFixture, "a new process is let in when the others meet again", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  take();
  come_anew(2);
  CHECK(take_all<MeetingWanted>().empty());
  CHECK(say(0, RanksJoined{{0, 1}}) == Errc::ok);
  take();
  CHECK(say(0, FenceEnter{0, {0, 1}, "blob"}) == Errc::ok);
  const auto sent = take();
  REQUIRE(sent.size() == 4);
  CHECK(read<FenceRelease>(sent[0]).blob == "blob");
  CHECK(sent[0].frame.epoch == 2);
  CHECK(read<FenceRelease>(sent[1]).fence == 0);
  CHECK(sent[2].frame.type == MessageType::meeting_wanted);
  CHECK(sent[3].frame.type == MessageType::meeting_wanted);
  CHECK(sent[2].host + sent[3].host == 1);
  come({0, 1});
  CHECK(job.membership().epoch() == 3);
  const auto begun = take_all<EpochBegun>(Target::driver);
  REQUIRE(begun.size() == 1);
  CHECK(members_text(begun[0].second.members) == "0:0 1:1 2:2");
  meet();
  CHECK(take_all<FenceRelease>().size() == 2);
  finish(0);
  finish(1);
  CHECK(job.state() == JobState::running);
  finish(2);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::success);
}

TEST_CASE_METHOD(ElasticJobFixture, "what agents say of an epoch that is over changes nothing",
                 "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  take();
  // They were on their way.
  CHECK(from_agent(0, StorePut{1, "key", "old"}, 1) == Errc::ok);
  CHECK(from_agent(0, StoreGet{2, "key", 1000}, 1) == Errc::ok);
  CHECK(from_agent(0, FenceEnter{1, {0, 1}, ""}, 1) == Errc::ok);
  CHECK(from_agent(0, FenceEnter{0, {0, 1}, ""}, 1) == Errc::ok);
  CHECK(from_agent(0, RanksJoined{{0, 1}}, 1) == Errc::ok);
  CHECK(from_agent(0, RankStalled{0, 1'000'000}, 1) == Errc::ok);
  CHECK(from_agent(0, RankPictures{1, {}}, 1) == Errc::ok);
  CHECK(take().empty());
  CHECK_FALSE(job.next_deadline() < now + 30s);  // nobody waits in hvd::init
  // News of a process are true in every epoch.
  CHECK(from_agent(1, RankStarted{2, 2002}, 1) == Errc::ok);
  CHECK(job.membership().ranks()[2].pid == 2002);
  // The new epoch begins with nothing.
  CHECK(say(0, StoreGet{3, "key", 1000}) == Errc::ok);
  CHECK(take().empty());
  CHECK(say(0, StorePut{4, "key", "new"}) == Errc::ok);
  CHECK(take_all<StoreValue>().at(0).second.value == "new");
  CHECK(say(0, FenceEnter{0, {0, 1}, ""}) == Errc::ok);
  CHECK(take_all<FenceRelease>().size() == 2);
}

TEST_CASE_METHOD(ElasticJobFixture, "an epoch that has not begun is a fault", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  CHECK(from_agent(0, StorePut{1, "key", "value"}, 3) == Errc::wrong_epoch);
  CHECK(from_agent(0, AtDoor{0, true}, 3) == Errc::wrong_epoch);
  CHECK(from_agent(1, RankStarted{2, 2002}, 3) == Errc::wrong_epoch);
}

TEST_CASE_METHOD(ElasticJobFixture, "agents speak of their own slots", "[job]") {
  run_elastic();
  CHECK(from_agent(1, AtDoor{0, true}) == Errc::malformed);
  CHECK(from_agent(1, AtDoor{99, true}) == Errc::malformed);
  CHECK(from_agent(0, ElasticEntered{2}) == Errc::malformed);
  const std::string too_long(limits::kMaxStateLayout + 1, 'x');
  CHECK(from_agent(0, ElasticEntered{0, too_long}) == Errc::malformed);
  CHECK(from_agent(0, AtDoor{0, true, too_long}) == Errc::malformed);
  CHECK(job.agent_frame(0, Frame{MessageType::at_door, 1, "x"}, now) == Errc::malformed);
  CHECK(job.agent_frame(0, Frame{MessageType::elastic_entered, 1, "x"}, now) == Errc::malformed);
  CHECK(from_agent(0, BeginEpoch{}) == Errc::unexpected_message);
  CHECK(from_agent(0, StartSlot{{}, 1}) == Errc::unexpected_message);
  CHECK(from_agent(0, MeetingWanted{}) == Errc::unexpected_message);
  // A slot that takes no part enters no fence.
  kill(2);
  come({0, 1});
  CHECK(say(2, FenceEnter{0, {2}, ""}) == Errc::malformed);
}

// Between two epochs a process may give its door up and come to it again; then the agent lets it in
// as it hears of the epoch.
TEST_CASE_METHOD(ElasticJobFixture, "a door of the epoch before is none of this one's", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  CHECK(from_agent(0, AtDoor{0, false}, 1) == Errc::ok);
  CHECK(from_agent(0, AtDoor{0, true}, 1) == Errc::ok);
  meet();
  take();
  come_anew(2);
  CHECK(take_all<MeetingWanted>().size() == 2);  // the members have met, and are not gathering
  come({0, 1});
  CHECK(job.membership().epoch() == 3);
  // A newcomer's door stays: its agent knows that it is no member.
  kill(1);
  come({0});
  REQUIRE(job.membership().epoch() == 3);
  CHECK(from_agent(0, RankStarted{1, 2001}, 3) == Errc::ok);
  come({2});
  REQUIRE(job.membership().epoch() == 4);
  CHECK(from_agent(0, AtDoor{1, true}, 3) == Errc::ok);
  meet();
  CHECK(take_all<MeetingWanted>().size() == 2);
}

TEST_CASE_METHOD(ElasticJobFixture, "a rank that fails again is started after a pause", "[job]") {
  run_elastic();
  kill(2);
  come({0, 1});
  meet();
  kill(2);
  CHECK(take_all<StartSlot>().size() == 1);
  REQUIRE(job.next_deadline());
  CHECK(*job.next_deadline() == now + 1s);
  now += 1s;
  job.tick(now);
  const auto starts = take_all<StartSlot>();
  REQUIRE(starts.size() == 1);
  CHECK(starts[0].second.start == 2);
  CHECK(*job.next_deadline() == now + 30s);  // it has as long as the first
}

TEST_CASE_METHOD(ElasticJobFixture, "a member that does not come is ended by its host", "[job]") {
  run_elastic();
  kill(2);
  come({0});
  take();
  CHECK(*job.next_deadline() == now + 10s);
  job.tick(now + 10s);
  CHECK(lines() ==
        Lines{"rank 1 has not come yet to meet the others, who wait for it; in 10 s it is killed"});
  job.tick(now + 20s);
  const auto ends = take_all<EndSlot>();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].first == 0);
  CHECK(ends[0].second.slot == 1);
  kill(1);
  come_anew(2);
  CHECK(job.membership().order() == Slots{0, 2});
}

TEST_CASE_METHOD(ElasticJobFixture, "who waits in hvd::init is told when a rank is lost there",
                 "[job]") {
  turn_around();
  come({0});
  come({2});
  REQUIRE(job.membership().epoch() == 3);
  CHECK(say(2, RanksJoined{{2}}) == Errc::ok);
  CHECK(say(2, FenceEnter{0, {2}, ""}) == Errc::ok);
  SECTION("it was in hvd::init") {
    CHECK(say(0, RanksJoined{{0}}) == Errc::ok);
    take();
    kill(0);
    const auto failures = take_all<FenceFailed>();
    REQUIRE(failures.size() == 2);
    CHECK(failures[0].second.reason == "rank 1 ended in hvd::init()");
  }
  SECTION("it was not") {
    take();
    kill(0);
    const auto failures = take_all<FenceFailed>();
    REQUIRE(failures.size() == 2);
    CHECK(failures[0].second.reason == "rank 1 ended before it called hvd::init()");
  }
  CHECK(job.state() == JobState::running);
}

TEST_CASE_METHOD(ElasticJobFixture, "ranks are named as they are at the moment", "[job]") {
  turn_around();
  SECTION("to those who lose one") {
    kill(0);
    const auto lost = take_all<PeerLost>();
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].first == 1);
    CHECK(lost[0].second.rank == 1);
  }
  SECTION("to the user") {
    kill(0);
    CHECK(lines().at(0).starts_with("rank 1 was killed"));
  }
  SECTION("when a rank gives up") {
    CHECK(say(2, RankTrouble{2, Errc::timeout, "waited", 0, true}) == Errc::ok);
    const auto told = take_all<PeerGaveUp>();
    REQUIRE(told.size() == 1);
    CHECK(told[0].first == 0);
    CHECK(told[0].second.rank == 0);
  }
  SECTION("in a fence, where rank 0 has the blob") {
    CHECK(say(0, FenceEnter{1, {0}, "blob"}) == Errc::malformed);
    CHECK(say(0, FenceEnter{1, {0}, ""}) == Errc::ok);
    CHECK(say(2, FenceEnter{1, {2}, "blob"}) == Errc::ok);
    CHECK(take_all<FenceRelease>().at(0).second.blob == "blob");
  }
  SECTION("when others wait for one in hvd::init") {
    CHECK(say(2, FenceEnter{1, {2}, ""}) == Errc::ok);
    job.tick(now + 10s);
    CHECK(lines() == Lines{"1 rank waits in hvd::init since 10 s for rank 1"});
  }
}

TEST_CASE("events name the slot and its rank", "[job]") {
  JobSpec spec = ElasticJobFixture::elastic_spec();
  spec.events = true;
  ElasticJobFixture fixture(spec);
  fixture.turn_around();
  fixture.kill(0);
  const auto events = fixture.take_all<RankEvent>(Target::driver);
  REQUIRE(events.size() == 1);
  CHECK(events[0].second.slot == 0);
  CHECK(events[0].second.rank == 1);
  CHECK(events[0].second.state == "exited");
}

TEST_CASE_METHOD(ElasticJobFixture, "what troubled a rank before the ranks met again is past",
                 "[job]") {
  run_elastic();
  CHECK(say(1, RankTrouble{1, Errc::peer_lost, "allreduce: rank 2 is lost"}) == Errc::ok);
  kill(2);
  come({0, 1});
  meet();
  CHECK(job.status(now).ranks[1].trouble.empty());
  take();
  kill(1);
  CHECK(lines().at(0) == "rank 1 was killed by signal 9 (SIGKILL); it is started again");
}

TEST_CASE_METHOD(ElasticJobFixture, "how a rank has ended is told in words", "[job]") {
  run_elastic();
  SECTION("with an error, for a reason") {
    CHECK(say(2, RankTrouble{2, Errc::timeout, "allreduce: waited"}) == Errc::ok);
    take();
    end(2, ExitKind::exited, 3);
    CHECK(lines() == Lines{"rank 2 exited with code 3 (allreduce: waited); it is started again"});
  }
  SECTION("without an error, and without a goodbye") {
    CHECK(say(2, RankLeft{2, true, true}) == Errc::ok);  // to join again
    end(2, ExitKind::exited, 0);
    CHECK(lines() ==
          Lines{"rank 2 exited with code 0 without hvd::shutdown(); it is started again"});
  }
  SECTION("without memory") {
    CHECK(say(2, RankExited{2, 1002, ExitKind::signaled, SIGKILL, false, true, {}}) == Errc::ok);
    CHECK(lines() ==
          Lines{"rank 2 was killed by signal 9 (SIGKILL) (out of memory); it is started again"});
  }
  SECTION("before it began") {
    kill(2);
    take();
    CHECK(say(2, RankExited{2, 0, ExitKind::not_started, ENOENT, false, false,
                            "no such program"}) == Errc::ok);
    CHECK(lines() == Lines{"rank 2 could not start: no such program; it is started again in 1 s"});
  }
  CHECK(job.state() == JobState::running);
}

}  // namespace
}  // namespace hvdrun
