// An elastic job: who belongs to no epoch yet waits at its door for the next one.
#include <chrono>

#include "tests/catch.h"
#include "tests/unit/worker/agent/workers_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<std::uint32_t>;

// Slots 4 and 5, in the first epoch the ranks of these numbers.
struct DoorsFixture : WorkersFixture {
  DoorsFixture() : WorkersFixture(true) {}

  static EpochMember member(std::uint32_t slot, std::uint32_t rank, std::uint32_t local_rank,
                            std::uint32_t local_size = 2) {
    return {slot, {.rank = rank, .local_rank = local_rank, .local_size = local_size, .size = 3}};
  }
  void leave(Worker& worker, std::uint32_t epoch = 1) {
    worker.channel->send(WorkerLeave{true}, epoch);
    settle();
  }
  // Slot 5 is rank 1 now, and slot 4 rank 2: `b` and `c`. Whoever was there before has left.
  void turn_around() {
    join(a, 4);
    join(b, 5);
    leave(a);
    leave(b);
    b = {};
    join(c, 4);
    join(b, 5);
    server->begin_epoch(2, {member(5, 1, 0), member(4, 2, 1)}, "key of 2", "10.0.0.1");
    settle();
    REQUIRE(b.last<WorkerTopology>());
    REQUIRE(c.last<WorkerTopology>());
    up.clear();
  }
  Worker d;
};

TEST_CASE_METHOD(DoorsFixture, "who joins again waits for the next epoch", "[workers]") {
  join(a, 4);
  CHECK(a.last<WorkerTopology>()->elastic);
  join(b, 5);
  server->fence_release({0, ""});
  up.clear();
  leave(a);
  const auto left = take_up<RankLeft>();
  REQUIRE(left.size() == 1);
  CHECK(left[0].clean);
  CHECK(left[0].returns);
  join(c, 4);
  CHECK(c.last<Welcome>());
  CHECK_FALSE(c.last<WorkerTopology>());
  CHECK_FALSE(c.closed);
  CHECK(server->pid_of(4) == 0);
  const auto doors = take_up<AtDoor>();
  REQUIRE(doors.size() == 1);
  CHECK(doors[0].slot == 4);
  CHECK(doors[0].waits);
  leave(b);
  join(d, 5);
  up.clear();

  server->begin_epoch(2, {member(5, 1, 0), member(4, 2, 1)}, "key of 2", "10.0.0.1");
  settle();
  const auto topology = c.last<WorkerTopology>();
  REQUIRE(topology);
  CHECK(c.frames.size() == 2);  // one welcome
  CHECK(c.frames.back().epoch == 2);
  CHECK(topology->rank == 2);
  CHECK(topology->size == 3);
  CHECK(topology->local_rank == 1);
  CHECK(topology->local_ranks == Ranks{1, 2});
  CHECK(topology->generation == 0);  // though ranks had met before
  CHECK(topology->data_key == "key of 2");
  CHECK(d.last<WorkerTopology>()->rank == 1);
  CHECK(server->pid_of(4) == ::getpid());
  for (const Frame& frame : up) CHECK(frame.epoch == 2);
  const auto joined = take_up<RanksJoined>();
  REQUIRE(joined.size() == 2);
  CHECK(joined[0].ranks.at(0) + joined[1].ranks.at(0) == 9);  // slots
}

TEST_CASE_METHOD(DoorsFixture, "fences of an epoch are counted from 0, and name slots upwards",
                 "[workers]") {
  turn_around();
  c.channel->send(FenceEnter{0, {4}, ""}, 2);
  b.channel->send(FenceEnter{0, {5}, ""}, 2);
  settle();
  const auto entered = take_up<FenceEnter>();
  REQUIRE(entered.size() == 1);
  CHECK(entered[0].fence == 0);
  CHECK(entered[0].ranks == Ranks{4, 5});
  server->fence_release({0, "blob"});
  settle();
  CHECK(b.last<FenceRelease>()->blob == "blob");
  CHECK(c.last<FenceRelease>()->blob == "blob");
}

TEST_CASE_METHOD(DoorsFixture, "a process may give its door up", "[workers]") {
  join(a, 4);
  leave(a);
  join(c, 4);
  up.clear();
  SECTION("by the end of its line") { c.channel->close(); }
  SECTION("by whatever it says") { c.channel->send(StorePut{1, "key", "value"}, 1); }
  SECTION("by a goodbye") { c.channel->send(WorkerLeave{true}, 1); }
  settle();
  REQUIRE(up.size() == 1);
  const auto doors = take_up<AtDoor>();
  REQUIRE(doors.size() == 1);
  CHECK(doors[0].slot == 4);
  CHECK_FALSE(doors[0].waits);
  server->begin_epoch(2, {member(4, 0, 0, 1)}, "", "10.0.0.1");
  settle();
  CHECK_FALSE(c.last<WorkerTopology>());
  // It is a member all the same, and is let in at once when it comes.
  join(d, 4);
  REQUIRE(d.last<WorkerTopology>());
  CHECK(d.last<WorkerTopology>()->rank == 0);
  CHECK(take_up<AtDoor>().empty());
}

TEST_CASE_METHOD(DoorsFixture, "one process waits at a door", "[workers]") {
  join(a, 4);
  leave(a);
  join(c, 4);
  join(d, 4);
  REQUIRE(d.last<Refuse>());
  CHECK(d.last<Refuse>()->code == Errc::unexpected_message);
  CHECK_FALSE(c.closed);
}

TEST_CASE_METHOD(DoorsFixture, "who comes back before its line's end is clear is believed",
                 "[workers]") {
  join(a, 4);
  join(b, 5);
  up.clear();
  a.channel->close();
  settle();
  CHECK(up.empty());
  join(c, 4);
  CHECK(c.last<Welcome>());
  REQUIRE(up.size() == 2);
  CHECK(up[0].type == MessageType::rank_left);
  CHECK(up[1].type == MessageType::at_door);
  CHECK(b.last<PeerLost>()->rank == 4);
}

TEST_CASE_METHOD(DoorsFixture, "a slot's next process waits, until an epoch has it", "[workers]") {
  join(a, 4);
  join(b, 5);
  server->rank_exited(4, "was killed");
  join(c, 4);
  CHECK(c.last<Refuse>()->code == Errc::not_found);  // what could that be?
  server->slot_restarts(4);
  up.clear();
  join(d, 4);
  CHECK(d.last<Welcome>());
  CHECK(take_up<AtDoor>().size() == 1);
  leave(b);
  Worker again;
  join(again, 5);
  SECTION("an epoch without it") {
    server->begin_epoch(2, {member(5, 0, 0, 1)}, "", "10.0.0.1");
    settle();
    CHECK(again.last<WorkerTopology>()->local_ranks == Ranks{0});
    CHECK_FALSE(d.last<WorkerTopology>());
    CHECK_FALSE(d.closed);
    CHECK(take_up<AtDoor>().size() == 1);  // the other's, before
    server->begin_epoch(3, {member(4, 1, 0, 1)}, "", "10.0.0.1");
    settle();
    CHECK(d.last<WorkerTopology>()->rank == 1);
    CHECK(d.frames.back().epoch == 3);
  }
  SECTION("its process has ended meanwhile") {
    up.clear();
    server->rank_exited(4, "was killed");
    settle();
    CHECK(d.closed);
    CHECK(up.empty());  // its end is told elsewhere
    server->begin_epoch(2, {member(4, 0, 0), member(5, 1, 1)}, "", "10.0.0.1");
    settle();
    CHECK_FALSE(d.last<WorkerTopology>());
    CHECK(again.last<WorkerTopology>()->rank == 1);
    REQUIRE(again.last<PeerLost>());
    CHECK(again.last<PeerLost>()->rank == 0);
    CHECK(again.last<PeerLost>()->reason == "was killed");
  }
  SECTION("it is started again, with something of the last one at its door") {
    server->slot_restarts(4);
    settle();
    CHECK(d.closed);
    Worker next;
    join(next, 4);
    CHECK(next.last<Welcome>());
  }
}

TEST_CASE_METHOD(DoorsFixture, "who has joined and is started again is lost for the others",
                 "[workers]") {
  join(a, 4);
  join(b, 5);
  up.clear();
  server->slot_restarts(4);
  settle();
  CHECK(a.closed);
  CHECK(b.last<PeerLost>()->rank == 4);
  CHECK_FALSE(take_up<RankLeft>().at(0).clean);
}

TEST_CASE_METHOD(DoorsFixture, "losses name the ranks of the epoch", "[workers]") {
  turn_around();
  SECTION("on this host") {
    c.channel->close();
    settle(200ms);
    REQUIRE(b.last<PeerLost>());
    CHECK(b.last<PeerLost>()->rank == 2);
    CHECK(b.frames.back().epoch == 2);
    CHECK(take_up<RankLeft>().at(0).rank == 4);  // upwards its slot
  }
  SECTION("on another") {
    server->peer_lost({0, false, "gone"});
    settle();
    CHECK(b.last<PeerLost>()->rank == 0);
    CHECK(c.last<PeerLost>()->rank == 0);
  }
  SECTION("but not to itself") {
    server->peer_lost({2, false, "gone"});
    settle();
    CHECK(b.last<PeerLost>()->rank == 2);
    CHECK_FALSE(c.last<PeerLost>());
  }
}

TEST_CASE_METHOD(DoorsFixture, "who has joined hears that a meeting is wanted", "[workers]") {
  join(a, 4);
  join(b, 5);
  leave(b);
  join(c, 5);
  server->meeting_wanted();
  settle();
  CHECK(a.last<MeetingWanted>());
  CHECK_FALSE(c.last<MeetingWanted>());  // it waits already
  CHECK_FALSE(c.closed);
}

TEST_CASE_METHOD(DoorsFixture, "what belongs to an epoch ends with it", "[workers]") {
  join(a, 4);
  join(b, 5);
  b.channel->send(StoreGet{7, "key", 1000}, 1);
  settle();
  const auto asked = take_up<StoreGet>();
  REQUIRE(asked.size() == 1);
  leave(b);
  join(c, 5);
  up.clear();
  server->begin_epoch(2, {member(5, 0, 0, 1)}, "", "10.0.0.1");
  settle();
  // A line that has not come.
  CHECK(a.closed);
  REQUIRE_FALSE(up.empty());
  CHECK(up[0].epoch == 1);
  CHECK_FALSE(take_up<RankLeft>().at(0).clean);
  // An answer that was on its way.
  server->store_value({asked[0].request, Errc::ok, "old"});
  settle();
  CHECK_FALSE(c.last<StoreValue>());
  // A word about the old one.
  c.channel->send(FenceEnter{0, {5}, ""}, 1);
  settle();
  CHECK(c.closed);
}

TEST_CASE_METHOD(DoorsFixture, "that a program goes on is told upwards", "[workers]") {
  join(b, 5);
  b.channel->send(ElasticEntered{0, "weights"}, 1);
  settle();
  const auto entered = take_up<ElasticEntered>();
  REQUIRE(entered.size() == 1);
  CHECK(entered[0].slot == 5);
  CHECK(entered[0].layout == "weights");
}

TEST_CASE_METHOD(DoorsFixture, "what a late process says of its state goes upwards", "[workers]") {
  join(a, 4);
  server->rank_exited(4, "was killed");
  server->slot_restarts(4);
  up.clear();
  join(c, 4, std::string(limits::kMaxStateLayout, 'x'));
  const auto waiting = take_up<AtDoor>();
  REQUIRE(waiting.size() == 1);
  CHECK(waiting[0].waits);
  CHECK(waiting[0].layout == std::string(limits::kMaxStateLayout, 'x'));
  join(d, 5, std::string(limits::kMaxStateLayout + 1, 'x'));
  REQUIRE(d.last<Refuse>());
  CHECK(d.last<Refuse>()->code == Errc::malformed);
}

TEST_CASE_METHOD(WorkersFixture, "in a job that is not elastic who joins again is let in at once",
                 "[workers]") {
  join(a, 4);
  CHECK_FALSE(a.last<WorkerTopology>()->elastic);
  server->fence_release({0, ""});
  a.channel->send(WorkerLeave{}, 1);
  settle();
  join(c, 4);
  REQUIRE(c.last<WorkerTopology>());
  CHECK(c.last<WorkerTopology>()->generation == 1);
  CHECK(take_up<AtDoor>().empty());
}

TEST_CASE_METHOD(DoorsFixture, "a rank's word on another's death names a slot from here on",
                 "[workers]") {
  turn_around();
  c.channel->send(PeerDied{1}, 2);
  settle();
  CHECK(died == Ranks{5});
  CHECK_FALSE(c.closed);
  CHECK_FALSE(b.closed);
  CHECK(up.empty());
  server->slot_dying(5, "its process has died");
  settle();
  const auto lost = c.last<PeerLost>();
  REQUIRE(lost);
  CHECK(lost->rank == 1);
  CHECK_FALSE(lost->clean);
  CHECK(lost->reason == "its process has died");
  CHECK_FALSE(b.last<PeerLost>());
  // It may have left before; then there is nobody to be lost.
  leave(b, 2);
  c.channel->send(PeerDied{1}, 2);
  settle();
  CHECK(died == Ranks{5});
}

TEST_CASE_METHOD(DoorsFixture, "a member that dies at its door is lost to those who were let in",
                 "[workers]") {
  join(a, 4);
  join(b, 5);
  leave(a);
  leave(b);
  join(c, 4);
  b = {};
  join(b, 5);
  b.channel->close();  // before its agent has heard of the epoch
  settle();
  server->begin_epoch(2, {member(4, 0, 0), member(5, 1, 1)}, "key of 2", "10.0.0.1");
  settle();
  REQUIRE(c.last<WorkerTopology>());
  CHECK_FALSE(c.last<PeerLost>());
  server->rank_exited(5, "was killed");
  settle();
  REQUIRE(c.last<PeerLost>());
  CHECK(c.last<PeerLost>()->rank == 1);
  // Its next process is no member of this epoch.
  server->slot_restarts(5);
  join(d, 5);
  CHECK(d.last<Welcome>());
  CHECK_FALSE(d.last<WorkerTopology>());
}

TEST_CASE_METHOD(DoorsFixture, "only members of this host can be said to have died", "[workers]") {
  turn_around();
  const std::uint32_t rank = GENERATE(0U, 3U, 4'000'000'000U);
  c.channel->send(PeerDied{rank}, 2);
  settle();
  CHECK(c.closed);
  CHECK(died.empty());
}

TEST_CASE_METHOD(WorkersFixture, "in other jobs nobody speaks of deaths", "[workers]") {
  join(a, 4);
  join(b, 5);
  b.channel->send(PeerDied{4}, 1);
  settle();
  CHECK(b.closed);
  CHECK(died.empty());
}

}  // namespace
}  // namespace hvdrun
