// Hosts that are listed while an elastic job runs: what its coordinator tells whom.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

using Hosts = std::vector<ListedHost>;

// a: 0 and 1, b: 2; c is new.
struct ListedHostsFixture : ElasticJobFixture {
  ListedHostsFixture() : ElasticJobFixture(spec()) {}
  static JobSpec spec() {
    JobSpec spec = elastic_spec();
    spec.max_np = 8;
    spec.elsewhere = {false, true};
    return spec;
  }
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
  Errc list(const Hosts& hosts) { return from_driver(HostsListed{hosts, {}}); }
  // A word of the agent of any host.
  template <class M>
  Errc from(std::uint32_t host, const M& message) {
    return from_agent(host, message, job.membership().epoch());
  }
  static ListedHost a() { return {0, "a", 2, false}; }
  static ListedHost b() { return {1, "b", 1, true}; }
  static ListedHost c(std::uint32_t slots = 2) { return {2, "c", slots, true}; }
};

TEST_CASE_METHOD(ListedHostsFixture, "a host that is listed is opened, and its slots started",
                 "[job]") {
  run_elastic();
  REQUIRE(list({a(), b(), c()}) == Errc::ok);
  const auto sent = take();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].target == Target::driver);
  const auto added = read<SlotsAdded>(sent[0]).slots;
  REQUIRE(added.size() == 2);
  CHECK(added[0].rank == 3);
  const RankPlace second = added[1];
  CHECK(second.rank == 4);
  CHECK(second.host == 2);
  CHECK(second.local_rank == 1);
  CHECK(read<ReopenHost>(sent[1]).host_index == 2);
  CHECK(read<ReopenHost>(sent[1]).opening == 1);
  CHECK(job.expects_agent(2));
  CHECK(job.status(now).ranks.size() == 5);
  ready(2, 5002);
  const auto begun = take();
  REQUIRE(begun.size() == 4);
  CHECK(begun[0].host == 2);
  const auto launch = read<Launch>(begun[0]);
  CHECK(launch.comes_back);
  CHECK_FALSE(launch.host_address.empty());
  REQUIRE(launch.slots.size() == 2);
  CHECK(read<Log>(begun[1]).text == "host c has come");
  CHECK(read<StartSlot>(begun[2]).slot.rank == 3);
  CHECK(read<StartSlot>(begun[2]).start == 0);
  CHECK(read<StartSlot>(begun[3]).slot.rank == 4);
  for (const std::uint32_t slot : {3U, 4U}) {
    REQUIRE(from(2, RankStarted{slot, 2000 + slot}) == Errc::ok);
    REQUIRE(from(2, AtDoor{slot, true}) == Errc::ok);
  }
  CHECK(take_all<MeetingWanted>().size() == 3);
  come({0, 1, 2});
  CHECK(job.membership().order() == std::vector<std::uint32_t>{0, 1, 2, 3, 4});
  for (const auto& [host, message] : take_all<BeginEpoch>())
    CHECK_FALSE(message.host_address.empty());
}

TEST_CASE_METHOD(ListedHostsFixture, "a host that is not listed is told to go when it is empty",
                 "[job]") {
  run_elastic();
  REQUIRE(list({a()}) == Errc::ok);
  CHECK(take_all<MeetingWanted>().size() == 2);
  come({0, 1, 2});
  const auto ends = take_all<EndSlot>();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].first == 1);
  CHECK(ends[0].second.slot == 2);
  CHECK_FALSE(ends[0].second.is_late);
  CHECK_FALSE(ends[0].second.steps.empty());
  meet();
  take();
  REQUIRE(end(2, ExitKind::signaled, SIGTERM) == Errc::ok);
  const auto goodbye = take_all<EndJob>();
  REQUIRE(goodbye.size() == 1);
  CHECK(goodbye[0].first == 1);
  // Nothing of its end is news.
  job.agent_lost(1, "its agent is gone", now);
  REQUIRE(from_driver(HostFailed{1, "its guard has ended", 0}) == Errc::ok);
  CHECK(take().empty());
  SECTION("and comes again") {
    REQUIRE(list({a(), b()}) == Errc::ok);
    const auto again = take_all<ReopenHost>(Target::driver);
    REQUIRE(again.size() == 1);
    CHECK(again[0].second.opening == 1);
    ready(1, 5003);
    CHECK(lines() == std::vector<std::string>{"host b is back"});
  }
  SECTION("and the job ends well without it") {
    finish(0);
    finish(1);
    CHECK(job.verdict().cause == EndCause::success);
    CHECK(job.state() == JobState::ended);
    CHECK(job.verdict().victims.empty());
  }
}

TEST_CASE_METHOD(ListedHostsFixture, "a list that comes too early is kept", "[job]") {
  REQUIRE(list({a(), b(), c()}) == Errc::ok);
  CHECK(take().empty());
  run_elastic();
  CHECK(job.membership().size() == 5);
  CHECK(job.expects_agent(2));
}

TEST_CASE_METHOD(ListedHostsFixture, "a list that makes no sense is a fault", "[job]") {
  run_elastic();
  CHECK(list({a(), {3, "d", 1, true}}) == Errc::malformed);
  CHECK(list({a(), {2, "c", 0, true}}) == Errc::malformed);
  CHECK(job.membership().size() == 3);
}

TEST_CASE_METHOD(ElasticJobFixture, "hosts are listed only where they may change", "[job]") {
  run_elastic();
  CHECK(from_driver(HostsListed{{{0, "a", 2, false}}, {}}) == Errc::unexpected_message);
}

TEST_CASE_METHOD(ListedHostsFixture, "a new host that cannot be opened is tried again", "[job]") {
  run_elastic();
  REQUIRE(list({a(), b(), c(1)}) == Errc::ok);
  take();
  REQUIRE(from_driver(HostFailed{2, "ssh has ended", 1}) == Errc::ok);
  const auto again = take_all<ReopenHost>(Target::driver);
  REQUIRE(again.size() == 1);
  CHECK(again[0].second.opening == 2);
  CHECK_FALSE(again[0].second.at_once);
  // It is not listed any more.
  REQUIRE(list({a(), b()}) == Errc::ok);
  const auto left = take_all<LeaveHost>(Target::driver);
  REQUIRE(left.size() == 1);
  CHECK(left[0].second.host_index == 2);
  CHECK_FALSE(job.expects_agent(2));
  REQUIRE(from_driver(HostFailed{2, "ssh has ended", 2}) == Errc::ok);
  CHECK(take().empty());
  // And is again.
  REQUIRE(list({a(), b(), c(1)}) == Errc::ok);
  const auto anew = take_all<ReopenHost>(Target::driver);
  REQUIRE(anew.size() == 1);
  CHECK(anew[0].second.opening == 3);
  CHECK(anew[0].second.at_once);
}

TEST_CASE_METHOD(ListedHostsFixture, "hosts of lists that came too early have their numbers",
                 "[job]") {
  REQUIRE(list({a(), b(), c(1)}) == Errc::ok);
  REQUIRE(list({a(), b(), {3, "d", 1, true}}) == Errc::ok);
  run_elastic();
  CHECK(job.membership().size() == 4);
  CHECK(job.membership().table().host_name(3) == "d");
  CHECK(job.expects_agent(3));
  CHECK_FALSE(job.expects_agent(2));
}

TEST_CASE_METHOD(ListedHostsFixture, "a host that is lost while it is not wanted may come again",
                 "[job]") {
  run_elastic();
  REQUIRE(list({a()}) == Errc::ok);
  take();
  job.agent_lost(1, "its agent is gone", now);
  CHECK(take_all<ReopenHost>(Target::driver).empty());
  come({0, 1});
  meet();
  take();
  REQUIRE(list({a(), b()}) == Errc::ok);
  const auto again = take_all<ReopenHost>(Target::driver);
  REQUIRE(again.size() == 1);
  CHECK(again[0].second.host_index == 1);
  ready(1, 5003);
  CHECK(take_all<StartSlot>().size() == 1);
}

TEST_CASE_METHOD(ListedHostsFixture, "ranks that are removed by hand are not waited for", "[job]") {
  run_elastic();
  REQUIRE(from_driver(HostsListed{{a()}, {1}}) == Errc::ok);
  const auto ends = take_all<EndSlot>();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].second.slot == 2);
  REQUIRE(end(2, ExitKind::signaled, SIGTERM) == Errc::ok);
  CHECK(take_all<EndJob>().size() == 1);
  come({0, 1});
  CHECK(job.membership().order() == std::vector<std::uint32_t>{0, 1});
}

}  // namespace
}  // namespace hvdrun
