#include "coordinator/host_checks.h"
#include "tests/catch.h"
#include "tests/unit/coordinator/job_fixture.h"

namespace hvdrun {
namespace {

using Target = Job::Action::Target;

TEST_CASE("every problem is told once, with its hosts in their order", "[host checks]") {
  HostChecks checks({true, false, true, true, true});
  CHECK_FALSE(checks.wants(1));
  CHECK_FALSE(checks.wants(5));
  for (const std::uint32_t host : {0, 2, 3, 4}) checks.ask(host);
  const std::vector<HostSlots> hosts = {{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"e", 1}};
  CHECK(checks.answer(1, {}) == Errc::unexpected_message);
  CHECK(checks.answer(4, {127, "no such program"}) == Errc::ok);
  CHECK(checks.answer(4, {}) == Errc::unexpected_message);
  CHECK(checks.answer(2, {126, "a library\nis missing"}) == Errc::ok);
  CHECK_FALSE(checks.all_answered());
  CHECK(checks.waits_for(0));
  CHECK(checks.answer(0, {127, "no such program"}) == Errc::ok);
  CHECK(checks.answer(3, {0, "not looked at"}) == Errc::ok);
  CHECK(checks.all_answered());
  const auto verdict = checks.verdict(hosts);
  REQUIRE(verdict);
  CHECK(verdict->cause == EndCause::not_startable);
  CHECK(verdict->exit_code == 127);
  CHECK(verdict->host == "a");
  CHECK(verdict->text == "hosts a, e: no such program\nhost c: a library\\nis missing");
}

TEST_CASE("many hosts with problems stay a few lines", "[host checks]") {
  HostChecks checks(std::vector<bool>(100, true));
  std::vector<HostSlots> hosts;
  for (std::uint32_t host = 0; host < 100; ++host) {
    hosts.push_back({"n" + std::to_string(host), 1});
    checks.ask(host);
    // Half of them have the same.
    CHECK(checks.answer(host, {126, host < 50 ? "same" : "own " + std::to_string(host)}) ==
          Errc::ok);
  }
  const std::string text = checks.verdict(hosts)->text;
  CHECK(
      text.starts_with("hosts n0, n1, n2, n3, n4, n5, n6, n7 and 42 more: same\nhost n50: own 50"));
  CHECK(text.ends_with("\nand 43 hosts have other problems"));
}

TEST_CASE("what no check answers is a fault of the peer", "[host checks]") {
  HostChecks checks({true});
  checks.ask(0);
  CHECK(checks.answer(0, {69, "x"}) == Errc::malformed);
  CHECK(checks.answer(0, {0xffffffff, "x"}) == Errc::malformed);
  CHECK(checks.answer(0, {127, std::string(1025, 'x')}) == Errc::limit_exceeded);
  CHECK(checks.answer(0, {127, std::string(1024, 'x')}) == Errc::ok);
}

// Host b looks at its programs first.
struct CheckedJob : JobFixture {
  CheckedJob() {
    JobSpec spec = make_spec();
    spec.elsewhere = {false, true};
    spec.allow_mpi = true;
    job = Job(spec, now);
  }
};

TEST_CASE_METHOD(CheckedJob, "nothing is launched before every host has looked", "[host checks]") {
  ready(0, 5000);
  CHECK(from_agent(0, LaunchChecked{}) == Errc::unexpected_message);
  ready(1, 5001);
  CHECK(job.state() == JobState::waiting);
  auto launches = take_all<Launch>();
  REQUIRE(launches.size() == 1);
  CHECK(launches[0].first == 1);
  CHECK(launches[0].second.check_first);
  CHECK(launches[0].second.allow_mpi);
  CHECK(launches[0].second.slots.size() == 1);
  CHECK(from_agent(0, LaunchChecked{}) == Errc::unexpected_message);
  CHECK(from_agent(1, LaunchChecked{}, 2) == Errc::wrong_epoch);
  CHECK(from_agent(1, LaunchChecked{}) == Errc::ok);
  CHECK(job.state() == JobState::running);
  std::vector<std::uint32_t> started;
  for (const Sent& sent : take()) {
    if (sent.frame.type == MessageType::start_ranks) started.push_back(sent.host);
    Launch launch;
    if (sent.frame.type != MessageType::launch) continue;
    REQUIRE_FALSE(decode(sent.frame.payload, launch));
    CHECK(sent.host == 0);
    CHECK_FALSE(launch.check_first);
  }
  CHECK(started == std::vector<std::uint32_t>{1});
}

TEST_CASE_METHOD(CheckedJob, "a program that cannot start somewhere starts nowhere",
                 "[host checks]") {
  ready(0, 5000);
  ready(1, 5001);
  take();
  CHECK(from_agent(1, LaunchChecked{127, "'train': no such program in PATH"}) == Errc::ok);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().exit_code == 127);
  CHECK(job.verdict().text == "host b: 'train': no such program in PATH");
  std::size_t ends = 0;
  for (const Sent& sent : take()) {
    CHECK(sent.frame.type != MessageType::launch);
    CHECK(sent.frame.type != MessageType::start_ranks);
    if (sent.frame.type == MessageType::end_job) ++ends;
  }
  CHECK(ends == 2);
}

TEST_CASE_METHOD(CheckedJob, "a host that never answers is named when the time is over",
                 "[host checks]") {
  ready(0, 5000);
  ready(1, 5001);
  CHECK(job.next_deadline() == now + std::chrono::seconds(30));
  now += std::chrono::seconds(30);
  job.tick(now);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::start_timeout);
  CHECK(job.verdict().text == "b");
  // Too late.
  CHECK(from_agent(1, LaunchChecked{}) == Errc::ok);
  CHECK(job.state() == JobState::ended);
}

TEST_CASE_METHOD(CheckedJob, "a host lost while it looks ends the job", "[host checks]") {
  ready(0, 5000);
  ready(1, 5001);
  job.agent_lost(1, "its connection broke", now);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::host_lost);
}

}  // namespace
}  // namespace hvdrun
