// An elastic job's host that is lost, and opened again.
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct RemoteHostFixture : ElasticJobFixture {
  RemoteHostFixture() : ElasticJobFixture(spec()) {}
  static JobSpec spec() {
    JobSpec spec = elastic_spec();
    spec.min_np = 1;
    spec.elsewhere = {false, true};
    spec.host_env = {{"A=0"}, {"A=1"}};
    return spec;
  }
  // The programs of b are looked at first.
  void run_elastic() {
    ready(0, 5000);
    ready(1, 5001);
    REQUIRE(from_agent(1, LaunchChecked{}) == Errc::ok);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      REQUIRE(from_agent(rank / 2, RankStarted{rank, 1000 + rank}) == Errc::ok);
    meet();
    enter({0, 1, 2});
    take();
  }
  // The numbers of the openings that the driver is told to begin now, all of b.
  std::vector<std::uint32_t> openings() {
    std::vector<std::uint32_t> found;
    for (const auto& [host, message] : take_all<ReopenHost>(Target::driver)) {
      CHECK(message.host_index == 1);
      found.push_back(message.opening);
    }
    return found;
  }
  Errc failed(std::uint32_t opening) {
    return from_driver(HostFailed{1, "ssh has ended", opening});
  }
  void lose_b() {
    run_elastic();
    job.agent_lost(1, "its agent is gone", now);
    REQUIRE(openings() == Openings{1});
    come({0, 1});
    REQUIRE(job.membership().order() == std::vector<std::uint32_t>{0, 1});
    meet();
    take();
  }
  using Openings = std::vector<std::uint32_t>;
};

TEST_CASE_METHOD(RemoteHostFixture, "a lost host is opened again, and its ranks started", "[job]") {
  lose_b();
  CHECK(job.expects_agent(1));
  CHECK_FALSE(job.expects_agent(0));
  ready(1, 5002);
  const auto sent = take();
  REQUIRE(sent.size() == 3);
  CHECK(sent[0].host == 1);
  CHECK(sent[0].frame.epoch == 2);
  const auto launch = read<Launch>(sent[0]);
  CHECK(launch.comes_back);
  CHECK_FALSE(launch.check_first);
  REQUIRE(launch.slots.size() == 1);
  CHECK(launch.slots[0].rank == 2);
  CHECK(launch.host_env == std::vector<std::string>{"A=1"});
  CHECK(launch.elastic);
  CHECK(read<Log>(sent[1]).text == "host b is back");
  CHECK(read<StartSlot>(sent[2]).slot.rank == 2);
  CHECK(read<StartSlot>(sent[2]).start == 1);
  come_anew(2);
  CHECK(take_all<MeetingWanted>().size() == 2);
  come({0, 1});
  CHECK(job.membership().order() == std::vector<std::uint32_t>{0, 1, 2});
  const auto begun = take_all<BeginEpoch>();
  CHECK(begun.size() == 2);
  meet();
  finish(0);
  finish(1);
  finish(2);
  CHECK(job.verdict().cause == EndCause::success);
  CHECK(job.state() == JobState::ended);
}

TEST_CASE_METHOD(RemoteHostFixture, "what ends of an earlier opening is no news", "[job]") {
  lose_b();
  CHECK(failed(0) == Errc::ok);
  job.agent_lost(1, "its connection has ended", now);  // of an agent that the driver had given up
  CHECK(openings().empty());
  ready(1, 5002);
  come_anew(2);
  take();
  CHECK(failed(0) == Errc::ok);
  CHECK(openings().empty());
  CHECK(lines().empty());
}

TEST_CASE_METHOD(RemoteHostFixture, "an opening that comes to nothing is followed by another",
                 "[job]") {
  lose_b();
  SECTION("before its agent has come") { CHECK(failed(1) == Errc::ok); }
  SECTION("its agent ends before it is ready") {
    job.agent_connected(1);
    job.agent_lost(1, "its agent is gone", now);
  }
  CHECK(openings() == Openings{2});
  CHECK(job.expects_agent(1));
  CHECK(failed(1) == Errc::ok);
  CHECK(openings().empty());
  ready(1, 5002);
  CHECK(take_all<StartSlot>().size() == 1);
}

TEST_CASE_METHOD(RemoteHostFixture, "a host may be lost again", "[job]") {
  lose_b();
  ready(1, 5002);
  come_anew(2);
  come({0, 1});
  meet();
  take();
  SECTION("its agent is gone") { job.agent_lost(1, "its agent is gone", now); }
  SECTION("what carries it has ended") { CHECK(failed(1) == Errc::ok); }
  CHECK(openings() == Openings{2});
  CHECK(job.membership().ranks()[2].state == RankState::exited);
}

TEST_CASE_METHOD(RemoteHostFixture, "the agent of a host that is opened again is given up",
                 "[job]") {
  run_elastic();
  CHECK(job.take_given_up_agents().empty());
  // Its connection may be sound, where the ssh session alone has ended.
  CHECK(failed(0) == Errc::ok);
  CHECK(openings() == Openings{1});
  CHECK(job.take_given_up_agents() == std::vector<std::uint32_t>{1});
  CHECK(job.take_given_up_agents().empty());
}

TEST_CASE_METHOD(RemoteHostFixture, "a host that nobody waits for is left alone", "[job]") {
  lose_b();
  for (std::uint32_t times = 1; times <= 2; ++times) {
    ready(1, 5002);
    now += 1s;
    job.tick(now);
    REQUIRE(take_all<StartSlot>().size() == 1);
    job.agent_lost(1, "its agent is gone", now);
    CHECK(openings() == (times < 2 ? Openings{times + 1} : Openings{}));
  }
  // Its rank was lost too often. The end of what carried the host changes nothing.
  CHECK(failed(2) == Errc::ok);
  CHECK(openings().empty());
  CHECK_FALSE(job.expects_agent(1));
}

TEST_CASE_METHOD(RemoteHostFixture, "a host without members is not the cause of a later end",
                 "[job]") {
  lose_b();
  enter({0, 1});
  ready(1, 5002);
  job.agent_lost(1, "its agent is gone", now);
  for (const std::uint32_t rank : {0U, 1U}) exit(rank, ExitKind::exited, 7);
  CHECK(job.verdict().cause == EndCause::rank_failed);
  CHECK(job.verdict().rank == 0);
  CHECK(job.verdict().exit_code == 7);
}

TEST_CASE("where ranks meet stays what it was at the start", "[job]") {
  JobSpec spec = RemoteHostFixture::spec();
  spec.elsewhere = {true, true};
  ElasticJobFixture jobs(spec);
  jobs.ready(0, 5000);
  jobs.ready(1, 5001);
  for (const std::uint32_t host : {0U, 1U})
    REQUIRE(jobs.from_agent(host, LaunchChecked{}) == Errc::ok);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    REQUIRE(jobs.from_agent(rank / 2, RankStarted{rank, 1000 + rank}) == Errc::ok);
  jobs.meet();
  jobs.enter({0, 1, 2});
  jobs.job.agent_lost(0, "its agent is gone", jobs.now);
  jobs.come({2});
  jobs.take();
  // The first host is back, with another port.
  jobs.ready(0, 5009);
  const auto launches = jobs.take_all<Launch>();
  REQUIRE(launches.size() == 1);
  CHECK(launches.front().second.master_port == 5000);
}

TEST_CASE_METHOD(RemoteHostFixture, "a job that ends opens no host", "[job]") {
  SECTION("it is about to") {
    run_elastic();
    finish(0);
    finish(1);
    job.agent_lost(1, "its agent is gone", now);
    CHECK(openings().empty());
    CHECK(job.state() == JobState::ended);
  }
  SECTION("it does so meanwhile") {
    lose_b();
    finish(0);
    finish(1);
    CHECK(job.state() == JobState::ended);
    CHECK(job.verdict().cause == EndCause::success);
    ready(1, 5002);
    const auto sent = take_all<EndJob>();
    CHECK(sent.back().first == 1);
    CHECK(failed(1) == Errc::ok);
    CHECK(openings().empty());
  }
}

TEST_CASE_METHOD(RemoteHostFixture, "this machine is not opened again", "[job]") {
  run_elastic();
  job.agent_lost(0, "its agent is gone", now);
  CHECK(openings().empty());
  CHECK(job.state() == JobState::running);
  come({2});
  CHECK(job.membership().order() == std::vector<std::uint32_t>{2});
}

}  // namespace
}  // namespace hvdrun
