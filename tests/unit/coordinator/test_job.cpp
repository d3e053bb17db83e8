#include <cerrno>
#include <signal.h>

#include "common/base/limits.h"
#include "tests/catch.h"
#include "tests/unit/coordinator/job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Target = Job::Action::Target;

TEST_CASE_METHOD(JobFixture, "ranks are launched once all hosts are there, and not before",
                 "[job]") {
  CHECK(job.expects_agent(0));
  CHECK_FALSE(job.expects_agent(2));
  ready(1, 5001);
  CHECK_FALSE(job.expects_agent(1));
  CHECK(take().empty());
  CHECK(job.state() == JobState::waiting);
  ready(0, 5000);
  CHECK(job.state() == JobState::running);
  const auto launches = take_all<Launch>();
  REQUIRE(launches.size() == 2);
  const Launch& a = launches[0].second;
  const Launch& b = launches[1].second;
  CHECK(launches[0].first == 0);
  CHECK(launches[1].first == 1);
  CHECK(a.slots.size() == 2);
  REQUIRE(b.slots.size() == 1);
  CHECK(b.slots[0].rank == 2);
  CHECK(b.slots[0].cross_rank == 1);
  CHECK(b.slots[0].cross_size == 2);
  CHECK(b.node_rank == 1);
  CHECK(b.size == 3);
  // Rank 0 runs on a: everybody is told a's address and the port that a's agent holds.
  CHECK(b.master_addr == "127.0.0.1");
  CHECK(b.master_port == 5000);
  CHECK(b.argv == std::vector<std::string>{"train"});
  CHECK(b.env == Environment{"A=b"});
  CHECK(b.cwd == "/tmp");
  CHECK(b.env_torch);
  CHECK_FALSE(b.env_mpi_ids);
  CHECK(b.env_horovod);
  CHECK(b.horovod_port == 5999);
  CHECK(b.horovod_slots.empty());
  CHECK(b.host_address == "127.0.0.1");
}

TEST_CASE("every host is told how programs of Horovod see its ranks", "[job]") {
  JobSpec spec = JobFixture::make_spec();
  spec.horovod_ranks = {{{"a", 1}, {"A", 1}, {"b", 2}}, 3};
  spec.horovod_port = 0;
  JobFixture fixture(spec);
  fixture.ready(1, 5001);
  fixture.ready(0, 5000);
  const auto launches = fixture.take_all<Launch>();
  REQUIRE(launches.size() == 2);
  std::string seen;
  for (const auto& [host, launch] : launches) {
    CHECK(launch.env_horovod);
    CHECK(launch.horovod_port == 0);
    for (const HorovodSlot& slot : launch.horovod_slots)
      seen += std::to_string(host) + " " + slot.host + " " + std::to_string(slot.place.local_rank) +
              std::to_string(slot.place.local_size) + std::to_string(slot.place.cross_rank) +
              std::to_string(slot.place.cross_size) + ";";
  }
  CHECK(seen == "0 a 0103;0 A 0113;1 b 0123;");
}

TEST_CASE_METHOD(JobFixture, "every host is told its address, as it was proved", "[job]") {
  job.agent_connected(0);
  job.agent_connected(1);
  CHECK(from_agent(1, AgentReady{101, 4, 5001, "node2"}) == Errc::malformed);
  CHECK(from_agent(1, AgentReady{101, 4, 5001, "2001:db8::2"}) == Errc::ok);
  // The driver's own host has no connection over the network: it is where the other was let in.
  job.set_own_address("2001:db8::1");
  CHECK(from_agent(0, AgentReady{100, 4, 5000, ""}) == Errc::ok);
  const auto launches = take_all<Launch>();
  REQUIRE(launches.size() == 2);
  CHECK(launches[0].second.host_address == "2001:db8::1");
  CHECK(launches[1].second.host_address == "2001:db8::2");
  CHECK(launches[1].second.master_addr == "2001:db8::1");
}

TEST_CASE_METHOD(JobFixture, "all ranks exit 0: success, and everybody is sent home", "[job]") {
  run();
  CHECK(exit(0, ExitKind::exited, 0) == Errc::ok);
  CHECK(exit(2, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::running);
  CHECK(exit(1, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::success);
  CHECK(job.verdict().exit_code == 0);
  CHECK(take_all<EndJob>().size() == 2);
}

TEST_CASE_METHOD(JobFixture, "the first failure decides, the rest are its victims", "[job]") {
  run();
  CHECK(exit(0, ExitKind::exited, 0) == Errc::ok);
  CHECK(exit(2, ExitKind::signaled, SIGKILL) == Errc::ok);
  CHECK(job.state() == JobState::ending);
  const auto kills = take_all<KillRanks>();
  REQUIRE(kills.size() == 2);
  REQUIRE(kills[0].second.steps.size() == 1);
  CHECK(kills[0].second.steps[0].signal == SIGTERM);
  CHECK(kills[0].second.steps[0].wait_ms == 5000);
  CHECK(exit(1, ExitKind::exited, 3) == Errc::ok);
  CHECK(job.state() == JobState::ended);
  const auto verdicts = take_all<JobEnded>(Target::driver);
  REQUIRE(verdicts.size() == 1);
  const JobEnded& verdict = verdicts[0].second;
  CHECK(verdict.cause == EndCause::rank_failed);
  CHECK(verdict.rank == 2);
  CHECK(verdict.host == "b");
  CHECK(verdict.exit_code == 137);
  REQUIRE(verdict.victims.size() == 2);
  CHECK(verdict.victims[0].ranks == std::vector<std::uint32_t>{0});
  CHECK(verdict.victims[1].value == 3);
  CHECK(verdict.victims[1].ranks == std::vector<std::uint32_t>{1});
}

TEST_CASE_METHOD(JobFixture, "what ends after a kill of the agent's own is no cause", "[job]") {
  run();
  CHECK(exit(0, ExitKind::signaled, SIGTERM, true) == Errc::ok);
  CHECK(job.state() == JobState::running);
}

TEST_CASE("exit codes of ranks", "[job]") {
  CHECK(exit_code_of(ExitKind::exited, 7) == 7);
  CHECK(exit_code_of(ExitKind::signaled, SIGSEGV) == 139);
  CHECK(exit_code_of(ExitKind::not_started, ENOENT) == 127);
  CHECK(exit_code_of(ExitKind::not_started, EACCES) == 126);
  CHECK(exit_code_of(ExitKind::not_started, EMFILE) == 75);
  CHECK(exit_code_of(ExitKind::lost, 0) == 69);
}

TEST_CASE_METHOD(JobFixture, "a lost host ends the job and counts for its ranks", "[job]") {
  run();
  job.agent_lost(1, "its agent is gone", now);
  CHECK(job.state() == JobState::ending);
  const auto kills = take_all<KillRanks>();
  REQUIRE(kills.size() == 1);
  CHECK(kills[0].first == 0);
  exit(0, ExitKind::signaled, SIGTERM, true);
  exit(1, ExitKind::signaled, SIGTERM, true);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::host_lost);
  CHECK(job.verdict().exit_code == 69);
  CHECK(job.verdict().host == "b");
}

TEST_CASE_METHOD(JobFixture, "a host lost before the launch ends the job at once", "[job]") {
  ready(0, 5000);
  CHECK(from_driver(HostFailed{1, "no route"}) == Errc::ok);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().text == "no route");
  CHECK(take_all<EndJob>().size() == 1);
}

TEST_CASE_METHOD(JobFixture, "hosts that do not come in time are named", "[job]") {
  ready(0, 5000);
  CHECK(job.next_deadline() == now + 30s);
  job.tick(now + 30s - 1ms);
  CHECK(job.state() == JobState::waiting);
  job.tick(now + 30s);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::start_timeout);
  CHECK(job.verdict().text == "b");
  // A host that comes late is sent home.
  take();
  job.agent_connected(1);
  from_agent(1, AgentReady{});
  CHECK(take_all<EndJob>().size() == 1);
}

TEST_CASE_METHOD(JobFixture, "hosts that do not start their ranks in time are named", "[job]") {
  ready(0, 5000);
  ready(1, 5001);
  REQUIRE(job.state() == JobState::running);
  CHECK(job.next_deadline() == now + 30s);
  for (const std::uint32_t rank : {0U, 1U})
    CHECK(from_agent(0, RankStarted{rank, 1000}) == Errc::ok);
  job.tick(now + 30s - 1ms);
  CHECK(job.state() == JobState::running);
  job.tick(now + 30s);
  CHECK(job.state() == JobState::ending);
  CHECK(job.verdict().cause == EndCause::start_timeout);
  CHECK(job.verdict().exit_code == 69);
  CHECK(job.verdict().text == "b (rank 2 has not started)");
}

TEST_CASE_METHOD(JobFixture, "once all ranks have started nothing is waited for", "[job]") {
  run();
  CHECK_FALSE(job.next_deadline());
  job.tick(now + 1000s);
  CHECK(job.state() == JobState::running);
}

TEST_CASE_METHOD(JobFixture, "ranks that do not end are given up after the grace", "[job]") {
  run();
  CHECK(from_driver(AbortJob{SIGINT}) == Errc::ok);
  CHECK(job.state() == JobState::ending);
  job.tick(now + 5s);
  CHECK(job.state() == JobState::ending);
  job.tick(now + 10s);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().exit_code == 130);
}

TEST_CASE_METHOD(JobFixture, "the driver's end is the job's", "[job]") {
  run();
  job.driver_lost(now);
  CHECK(job.state() == JobState::ending);
  CHECK(take_all<KillRanks>().size() == 2);
}

TEST_CASE_METHOD(JobFixture, "the fence carries the root blob to every host", "[job]") {
  run();
  CHECK(from_agent(0, FenceEnter{0, {0, 1}, "blob"}) == Errc::ok);
  CHECK(take_all<FenceRelease>().empty());
  CHECK(from_agent(1, FenceEnter{0, {2}, ""}) == Errc::ok);
  const auto releases = take_all<FenceRelease>();
  REQUIRE(releases.size() == 2);
  CHECK(releases[1].second.blob == "blob");
}

TEST_CASE_METHOD(JobFixture, "a fence that can never fill fails and names the rank", "[job]") {
  run();
  SECTION("the rank ends while others wait") {
    from_agent(0, FenceEnter{0, {0, 1}, ""});
    exit(2, ExitKind::exited, 0);
  }
  SECTION("the rank ended before the others came") {
    exit(2, ExitKind::exited, 0);
    from_agent(0, FenceEnter{0, {0, 1}, ""});
  }
  const auto failures = take_all<FenceFailed>();
  REQUIRE_FALSE(failures.empty());
  CHECK(failures[0].second.reason == "rank 2 ended before it called hvd::init()");
  // A program may catch that and try again: it is told again, and its host is not lost over it.
  CHECK(from_agent(0, FenceEnter{0, {0, 1}, ""}) == Errc::ok);
  CHECK_FALSE(take_all<FenceFailed>().empty());
}

TEST_CASE_METHOD(JobFixture, "a rank whose line ended in the fence may enter it again", "[job]") {
  run();
  CHECK(from_agent(0, FenceEnter{0, {0, 1}, ""}) == Errc::ok);
  CHECK(from_agent(0, RankLeft{1, false}) == Errc::ok);
  CHECK(from_agent(1, FenceEnter{0, {2}, ""}) == Errc::ok);
  CHECK(take_all<FenceRelease>().empty());
  CHECK(from_agent(0, FenceEnter{0, {1}, ""}) == Errc::ok);
  CHECK(take_all<FenceRelease>().size() == 2);
}

TEST_CASE_METHOD(JobFixture, "a get of one host is answered by the put of another", "[job]") {
  run();
  from_agent(0, StoreGet{9, "key", 1000});
  CHECK(take().empty());
  CHECK(job.next_deadline() == now + 1s);
  from_agent(1, StorePut{4, "key", "value"});
  const auto sent = take();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].host == 1);
  CHECK(sent[0].frame.type == MessageType::store_ack);
  CHECK(sent[1].host == 0);
  StoreValue value;
  REQUIRE_FALSE(decode(sent[1].frame.payload, value));
  CHECK(value.request == 9);
  CHECK(value.value == "value");
}

TEST_CASE_METHOD(JobFixture, "an unclean loss is told to the other hosts only", "[job]") {
  run();
  from_agent(0, RankLeft{1, true});
  CHECK(take_all<PeerLost>().empty());
  from_agent(0, RankLeft{0, false});
  const auto lost = take_all<PeerLost>();
  REQUIRE(lost.size() == 1);
  CHECK(lost[0].first == 1);
  CHECK(lost[0].second.rank == 0);
}

TEST_CASE_METHOD(JobFixture,
                 "the first rank that gives a process set up is told to the other hosts", "[job]") {
  run();
  from_agent(0, RankTrouble{0, Errc::mismatch, "allreduce: rank 0 called ..."});
  CHECK(take_all<PeerGaveUp>().empty());
  from_agent(0, RankTrouble{0, Errc::timeout, "allreduce: waited", 7, true});
  from_agent(0, RankTrouble{1, Errc::timeout, "allreduce: waited, too", 7, true});
  const auto told = take_all<PeerGaveUp>();
  REQUIRE(told.size() == 1);
  CHECK(told[0].first == 1);
  CHECK(told[0].second.rank == 0);
  CHECK(told[0].second.process_set == 7);
  CHECK(told[0].second.code == Errc::timeout);
  CHECK(told[0].second.text == "allreduce: waited");
  from_agent(0, RankTrouble{0, Errc::timeout, "of all ranks", 0, true});
  CHECK(take_all<PeerGaveUp>().size() == 1);
  from_agent(0, RanksJoined{{0}});  // again: what was given up is of before
  from_agent(0, RankTrouble{0, Errc::timeout, "of all ranks", 0, true});
  CHECK(take_all<PeerGaveUp>().size() == 1);
}

TEST_CASE_METHOD(JobFixture, "frames that make no sense are faults", "[job]") {
  CHECK(from_agent(0, RankStarted{0, 1}) == Errc::unexpected_message);  // before ready
  run();
  CHECK(from_agent(0, RankStarted{2, 1}) == Errc::malformed);  // another host's rank
  CHECK(from_agent(0, RankExited{99, 1, ExitKind::exited, 0, false, false, {}}) == Errc::malformed);
  CHECK(from_agent(0, RanksJoined{{0, 2}}) == Errc::malformed);
  CHECK(from_agent(0, FenceEnter{0, {2}, ""}) == Errc::malformed);
  CHECK(from_agent(0, RankStarted{0, 1}, 2) == Errc::wrong_epoch);
  CHECK(from_agent(0, AgentReady{}) == Errc::unexpected_message);  // twice
  CHECK(from_agent(0, EndJob{}) == Errc::unexpected_message);
  CHECK(job.agent_frame(0, Frame{MessageType::rank_left, 1, "x"}, now) == Errc::malformed);
  CHECK(from_driver(Launch{}) == Errc::unexpected_message);
  CHECK(from_driver(HostFailed{7, ""}) == Errc::malformed);
  exit(0, ExitKind::exited, 0);
  CHECK(exit(0, ExitKind::exited, 0) == Errc::malformed);  // twice
}

TEST_CASE_METHOD(JobFixture, "progress is told when it changes for all", "[job]") {
  run();
  from_agent(0, RanksJoined{{0, 1}});
  CHECK(take_all<JobProgress>(Target::driver).empty());
  from_agent(1, RanksJoined{{2}});
  const auto progress = take_all<JobProgress>(Target::driver);
  REQUIRE(progress.size() == 1);
  CHECK(progress[0].second.joined == 3);
}

TEST_CASE_METHOD(JobFixture, "the time of the whole job", "[job]") {
  JobSpec spec = make_spec();
  spec.timeout = 7s;
  job = Job(spec, now);
  run();
  CHECK(*job.next_deadline() == now + 7s);
  job.tick(now + 6s);
  CHECK(job.state() == JobState::running);
  job.tick(now + 7s);
  CHECK(job.verdict().cause == EndCause::timeout);
  CHECK(job.verdict().exit_code == 124);
  CHECK(take_all<KillRanks>().size() == 2);
}

TEST_CASE_METHOD(JobFixture, "signals go to every host, status knows every rank", "[job]") {
  run();
  CHECK(from_driver(SignalRanks{SIGUSR1}) == Errc::ok);
  CHECK(take_all<SignalRanks>().size() == 2);
  from_agent(0, RankTrouble{1, Errc::timeout, "allreduce: waited"});
  const JobStatus status = job.status(now + 3s);
  CHECK(status.state == "running");
  CHECK(status.age_ms == 3000);
  REQUIRE(status.ranks.size() == 3);
  CHECK(status.ranks[1].trouble == "allreduce: waited");
  CHECK(status.ranks[2].probe.pid == 1002);
  CHECK(status.hosts == std::vector<std::string>{"a", "b"});
}

TEST_CASE_METHOD(JobFixture, "changes of state are told when somebody wants them", "[job]") {
  JobSpec spec = make_spec();
  spec.events = true;
  job = Job(spec, now);
  ready(1, 5001);
  ready(0, 5000);
  from_agent(0, RankStarted{0, 1000});
  exit(0, ExitKind::signaled, SIGSEGV);
  const auto events = take_all<RankEvent>(Target::driver);
  REQUIRE(events.size() == 2);
  CHECK(events[0].second.state == "started");
  CHECK(events[0].second.pid == 1000);
  CHECK(events[1].second.state == "exited");
  CHECK(events[1].second.value == SIGSEGV);
}

TEST_CASE("of very many hosts that do not come the first are named", "[job]") {
  JobSpec spec = JobFixture::make_spec();
  std::vector<HostSlots> hosts;
  for (int host = 0; host < 70; ++host) hosts.push_back({"h" + std::to_string(host), 1});
  spec.ranks = {std::move(hosts), 70};
  JobFixture fixture(spec);
  fixture.job.tick(fixture.now + 31s);
  CHECK(fixture.job.verdict().text.starts_with("h0, h1, h2, "));
  CHECK(fixture.job.verdict().text.ends_with(", h63 and 6 more"));
}

TEST_CASE_METHOD(JobFixture, "what a rank says of its trouble has a limit", "[job]") {
  run();
  REQUIRE(from_agent(0, RankTrouble{1, Errc::timeout, std::string(1U << 20, 'x')}) == Errc::ok);
  CHECK(job.status(now).ranks[1].trouble.size() == limits::kMaxTrouble);
}

}  // namespace
}  // namespace hvdrun
