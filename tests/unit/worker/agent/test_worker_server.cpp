#include <chrono>
#include <unistd.h>

#include "common/base/limits.h"
#include "tests/catch.h"
#include "tests/unit/worker/agent/workers_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

TEST_CASE_METHOD(WorkersFixture, "ranks join however many others have greeted and say nothing",
                 "[workers]") {
  std::vector<Worker> silent(limits::kMaxPendingHandshakes);
  for (Worker& worker : silent) {
    connect(worker);
    settle(0ms);
  }
  settle();
  join(a, 4);
  join(b, 5);
  CHECK(a.last<WorkerTopology>());
  CHECK(b.last<WorkerTopology>());
}

TEST_CASE_METHOD(WorkersFixture, "a worker is told where it stands", "[workers]") {
  join(b, 5);
  REQUIRE(b.frames.size() == 2);
  CHECK(b.frames[0].type == MessageType::welcome);
  CHECK(b.frames[1].epoch == 1);
  const auto topology = b.last<WorkerTopology>();
  REQUIRE(topology);
  CHECK(topology->rank == 5);
  CHECK(topology->size == 8);
  CHECK(topology->local_rank == 1);
  CHECK(topology->local_size == 2);
  CHECK(topology->cross_rank == 1);
  CHECK(topology->cross_size == 3);
  CHECK(topology->local_ranks == std::vector<std::uint32_t>{4, 5});
  CHECK(topology->stall_warning == 60'000);
  CHECK(topology->stall_shutdown == 90'000);
  CHECK(take_up<RanksJoined>().size() == 1);
}

TEST_CASE_METHOD(WorkersFixture, "who has been started as one rank joins as no other",
                 "[workers]") {
  own_rank = 4;
  join(a, 5);
  REQUIRE(a.last<Refuse>());
  const std::string self = "process " + std::to_string(::getpid()) + " (";
  const std::string reason = a.last<Refuse>()->reason;
  CHECK(reason.starts_with(self));
  CHECK(reason.ends_with(") cannot join as rank 5, as its HVD_RANK says: rank 4 has started it"));
  CHECK(take_up<RanksJoined>().empty());
  join(b, 4);
  CHECK(b.last<WorkerTopology>());
  CHECK(take_up<RanksJoined>().size() == 1);
  join(c, 4);
  REQUIRE(c.last<Refuse>());
  CHECK(c.last<Refuse>()->reason.starts_with("rank 4 has joined already: " + self));
  CHECK(server->pid_of(4) == ::getpid());
}

TEST_CASE_METHOD(WorkersFixture,
                 "a stall goes up once for the host, and a survey asks who has joined",
                 "[workers]") {
  join(a, 4);
  CHECK(server->pid_of(4) == ::getpid());  // by the kernel's word, whatever it says itself
  CHECK(server->pid_of(5) == 0);
  CHECK(server->pid_of(99) == 0);
  join(b, 5);
  up.clear();
  a.channel->send(WorkerStall{0, {{{"grad", 60'000}}, 1, "grad", 7}}, 1);
  b.channel->send(WorkerStall{0, {{{"grad", 60'010}}, 1, "grad", 7}}, 1);
  settle(200ms);
  const auto notices = take_up<RankStalled>();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].rank == 5);
  CHECK(notices[0].age_ms == 60'010);

  server->survey(3);
  settle();
  CHECK(a.last<StallAsk>()->request == 3);
  CHECK(b.last<StallAsk>()->request == 3);
  CHECK_FALSE(surveyed);
  a.channel->send(WorkerStall{3, {{}, 0, "loss", 8}}, 1);
  settle();
  CHECK_FALSE(surveyed);
  SECTION("both answer") {
    b.channel->send(WorkerStall{3, {}}, 1);
    settle();
    REQUIRE(surveyed);
    CHECK(surveyed->ranks.at(5).answered);
  }
  SECTION("one leaves") {
    b.channel->send(WorkerLeave{}, 1);
    settle();
    REQUIRE(surveyed);
    CHECK(surveyed->ranks.count(5) == 0);
  }
  SECTION("one hangs") {
    settle(limits::kWorkerAnswer);
    REQUIRE(surveyed);
    CHECK_FALSE(surveyed->ranks.at(5).answered);
    CHECK(surveyed->ranks.at(5).report.pending.at(0).name == "grad");
  }
  CHECK(surveyed->request == 3);
  CHECK(surveyed->ranks.at(4).answered);
  CHECK(surveyed->ranks.at(4).report.last_submitted == "loss");
}

TEST_CASE_METHOD(WorkersFixture, "who does not belong here is refused", "[workers]") {
  join(a, 3);
  CHECK(a.last<Refuse>()->code == Errc::not_found);
  join(b, 4);
  Worker twice;
  join(twice, 4);
  CHECK(twice.last<Refuse>()->code == Errc::unexpected_message);
  CHECK(twice.closed);
  CHECK_FALSE(b.closed);
}

TEST_CASE_METHOD(WorkersFixture, "one fence frame goes up for the whole host", "[workers]") {
  join(a, 4);
  join(b, 5);
  up.clear();
  a.channel->send(FenceEnter{0, {4}, "blob"}, 1);
  settle();
  CHECK(up.empty());
  b.channel->send(FenceEnter{0, {5}, ""}, 1);
  settle();
  const auto entered = take_up<FenceEnter>();
  REQUIRE(entered.size() == 1);
  CHECK(entered[0].ranks == std::vector<std::uint32_t>{4, 5});
  CHECK(entered[0].blob == "blob");
  server->fence_release({0, "all"});
  settle();
  CHECK(a.last<FenceRelease>()->blob == "all");
  CHECK(b.last<FenceRelease>()->blob == "all");

  // Ranks that left and came back count from 0 again; the epoch's number goes on.
  a.channel->send(WorkerLeave{}, 1);
  settle();
  join(c, 4);
  up.clear();
  c.channel->send(FenceEnter{0, {4}, ""}, 1);
  b.channel->send(FenceEnter{1, {5}, ""}, 1);
  settle();
  CHECK(take_up<FenceEnter>().at(0).fence == 1);
  server->fence_release({1, "again"});
  settle();
  CHECK(c.last<FenceRelease>()->fence == 0);
  CHECK(b.last<FenceRelease>()->fence == 1);
}

// The coordinator tells the agents how often all have met. So ranks that meet have one number, in
// whatever process and after whatever has failed there.
TEST_CASE_METHOD(WorkersFixture, "who joins is told how often all ranks have met", "[workers]") {
  join(a, 4);
  CHECK(a.last<WorkerTopology>()->generation == 0);
  server->fence_release({0, ""});
  a.channel->close();  // after the meeting: its process may have been replaced
  settle(200ms);
  join(b, 4);
  CHECK(b.last<WorkerTopology>()->generation == 1);
  b.channel->send(WorkerLeave{}, 1);
  settle();
  join(c, 4);
  CHECK(c.last<WorkerTopology>()->generation == 1);
}

TEST_CASE_METHOD(WorkersFixture, "who has left a meeting before it came about joins no more",
                 "[workers]") {
  join(a, 4);
  join(b, 5);
  a.channel->send(FenceEnter{0, {4}, ""}, 1);
  a.channel->close();  // its hvd::init has failed
  settle(200ms);
  CHECK(b.last<PeerLost>()->rank == 4);
  join(c, 4);
  REQUIRE(c.last<Refuse>());
  CHECK(c.last<Refuse>()->code == Errc::aborted);
  CHECK(c.last<Refuse>()->reason.starts_with("rank 4 has left hvd::init() before all ranks had"));
  // It had entered, and the release was on its way: then it may come to the next meeting.
  server->fence_release({0, ""});
  Worker d;
  join(d, 4);
  REQUIRE(d.last<WorkerTopology>());
  CHECK(d.last<WorkerTopology>()->generation == 1);
}

TEST_CASE_METHOD(WorkersFixture, "a fence does not wait for a rank that has ended", "[workers]") {
  join(a, 4);
  up.clear();
  a.channel->send(FenceEnter{0, {4}, ""}, 1);
  settle();
  CHECK(up.empty());
  server->rank_exited(5, "its process ended with code 0");
  const auto entered = take_up<FenceEnter>();
  REQUIRE(entered.size() == 1);
  CHECK(entered[0].ranks == std::vector<std::uint32_t>{4});
  server->fence_failed({0, "rank 5 is gone"});
  settle();
  CHECK(a.last<FenceFailed>()->reason == "rank 5 is gone");
}

TEST_CASE_METHOD(WorkersFixture, "requests of different workers keep their own numbers",
                 "[workers]") {
  join(a, 4);
  join(b, 5);
  up.clear();
  a.channel->send(StoreGet{7, "k", 1000}, 1);
  b.channel->send(StoreGet{7, "k", 1000}, 1);
  settle();
  const auto gets = take_up<StoreGet>();
  REQUIRE(gets.size() == 2);
  CHECK(gets[0].request != gets[1].request);
  server->store_value({gets[1].request, Errc::ok, "for b"});
  server->store_value({gets[1].request, Errc::ok, "a second answer"});
  server->store_value({999, Errc::ok, "for nobody"});
  settle();
  CHECK_FALSE(a.last<StoreValue>());
  CHECK(b.last<StoreValue>()->request == 7);
  CHECK(b.last<StoreValue>()->value == "for b");
}

TEST_CASE_METHOD(WorkersFixture, "a worker that vanishes is told to its peers, and upwards",
                 "[workers]") {
  join(a, 4);
  join(b, 5);
  up.clear();
  SECTION("without a word") {
    a.channel->close();
    settle();
    CHECK_FALSE(b.last<PeerLost>());  // its exit status may still come
    settle(200ms);
    CHECK_FALSE(b.last<PeerLost>()->clean);
    CHECK_FALSE(take_up<RankLeft>().at(0).clean);
  }
  SECTION("with goodbye") {
    a.channel->send(WorkerLeave{}, 1);
    settle();
    CHECK(b.last<PeerLost>()->clean);
    CHECK(take_up<RankLeft>().at(0).clean);
  }
  SECTION("killed: the line ends first, then the process") {
    a.channel->close();
    settle();
    server->rank_exited(4, "its process was killed by signal 9 (SIGKILL)");
    settle(200ms);
    CHECK(b.last<PeerLost>()->reason == "its process was killed by signal 9 (SIGKILL)");
    CHECK(take_up<RankLeft>().size() == 1);
  }
  SECTION("its process ended, but a child holds the line open") {
    server->rank_exited(4, "its process ended with code 3");
    settle();
    CHECK(b.last<PeerLost>()->reason == "its process ended with code 3");
    CHECK(a.closed);
  }
  CHECK(b.last<PeerLost>()->rank == 4);
}

TEST_CASE_METHOD(WorkersFixture, "a worker that speaks nonsense is let go", "[workers]") {
  join(a, 4);
  join(b, 5);
  SECTION("another epoch") { a.channel->send(FenceEnter{0, {4}, ""}, 2); }
  SECTION("a goodbye of another epoch") { a.channel->send(WorkerLeave{}, 2); }
  SECTION("another's rank") { a.channel->send(FenceEnter{0, {5}, ""}, 1); }
  SECTION("too many operations") {
    WorkerStall stall;
    stall.report.pending.resize(limits::kMaxPendingTensors + 1);
    stall.report.pending_count = 100;
    a.channel->send(stall, 1);
  }
  SECTION("a name too long") {
    a.channel->send(WorkerStall{0, {{{std::string(limits::kMaxTensorName + 1, 'x'), 1}}, 1, "", 1}},
                    1);
  }
  SECTION("more names than operations") {
    a.channel->send(WorkerStall{0, {{{"x", 1}}, 0, "", 1}}, 1);
  }
  SECTION("a message that is not a worker's") { a.channel->send(EndJob{}, 1); }
  settle();
  CHECK(a.closed);
  CHECK(b.last<PeerLost>()->rank == 4);
  CHECK_FALSE(b.last<PeerLost>()->clean);
}

TEST_CASE_METHOD(WorkersFixture, "a rank tells its own timeline", "[workers]") {
  join(a, 4);
  join(b, 5);
  TimelineBatch batch;
  batch.rank = 4;
  batch.count = 2;
  batch.bytes = "events";
  a.channel->send(batch, 1);
  a.channel->send(TimelineControl{4, 1, true, "t.json"}, 1);
  settle();
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].bytes == "events");
  REQUIRE(controls.size() == 1);
  CHECK(controls[0].path == "t.json");
  CHECK_FALSE(a.closed);
  // Not another's.
  b.channel->send(batch, 1);
  settle();
  CHECK(b.closed);
  CHECK(batches.size() == 1);
}

TEST_CASE_METHOD(WorkersFixture, "a timeline has its limits", "[workers]") {
  join(a, 4);
  join(b, 5);
  TimelineBatch batch;
  batch.rank = 4;
  batch.bytes = std::string(limits::kMaxTimelineBatch + 1, 'e');
  a.channel->send(batch, 1);
  b.channel->send(TimelineControl{5, 1, true, std::string(limits::kMaxTimelinePath + 1, 'p')}, 1);
  settle();
  CHECK(a.closed);
  CHECK(b.closed);
  CHECK(batches.empty());
  CHECK(controls.empty());
}

}  // namespace
}  // namespace hvdrun
