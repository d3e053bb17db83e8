// Elastic programs of Horovod: what their members say, in words of the job.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/coordinator/elastic_job_fixture.h"

namespace hvdrun {
namespace {

// a: 0 and 1, b: 2; c is new. All but a can be opened again.
struct HorovodJobFixture : ElasticJobFixture {
  using Arrival = Job::Arrival;
  // pickle.dumps(({}, b"key"), 4), in base64
  static constexpr const char* kAddresses = "gASVCwAAAAAAAAB9lEMDa2V5lIaULg==";

  HorovodJobFixture() : ElasticJobFixture(spec()) {}
  static JobSpec spec() {
    JobSpec spec = elastic_spec();
    spec.min_np = 1;
    spec.max_np = 8;
    spec.elsewhere = {false, true};
    return spec;
  }
  void run_horovod() {
    ready(0, 5000);
    ready(1, 5001);
    REQUIRE(from_agent(1, LaunchChecked{}) == Errc::ok);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      REQUIRE(from_agent(rank / 2, RankStarted{rank, 1000 + rank}) == Errc::ok);
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      REQUIRE(job.horovod_arrives(rank / 2, rank, false, now) == Arrival::member);
    job.horovod_met(now);
    enter_horovod("a:0");
    enter_horovod("a:1");
    CHECK_FALSE(job.waits_for_horovod_places());
    enter_horovod("b:0", 1);
    REQUIRE(job.waits_for_horovod_places());
    take();
  }
  void enter_horovod(const std::string& member, std::uint32_t host = 0) {
    job.horovod_entered(host, member, kAddresses, now);
  }
  void ask(const std::string& member, std::uint32_t host = 0) {
    job.horovod_at_door(host, member, now);
  }
};

TEST_CASE_METHOD(HorovodJobFixture, "a newcomer is told its rank, comes early, and is let in",
                 "[job][horovod]") {
  run_horovod();
  REQUIRE(from_driver(HostsListed{{{0, "a", 2, false}, {1, "b", 1, true}, {2, "c", 2, true}},
                                  {}}) == Errc::ok);
  ready(2, 5002);
  const auto starts = take_all<StartSlot>();
  REQUIRE(starts.size() == 2);
  const HorovodSlot second = starts[1].second.horovod;
  CHECK(second.host == "c");
  CHECK(second.place.rank == 4);
  CHECK(second.place.size == 5);
  CHECK(second.place.local_rank == 1);
  CHECK(second.place.cross_rank == 1);
  CHECK(second.place.cross_size == 2);
  for (const std::uint32_t slot : {3U, 4U})
    REQUIRE(from_agent(2, RankStarted{slot, 2000 + slot}) == Errc::ok);
  CHECK(job.horovod_arrives(2, 3, false, now) == Arrival::newcomer);
  CHECK(take_all<HorovodNotice>().empty());
  CHECK(job.horovod_arrives(2, 4, false, now) == Arrival::newcomer);
  const auto notices = take_all<HorovodNotice>();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].first == 0);
  CHECK(notices[0].second.slot == 0);
  CHECK(notices[0].second.key == "key");
  // Nobody has promised that.
  CHECK(job.horovod_arrives(2, 1, false, now) == Arrival::nobody);
  CHECK(job.horovod_arrives(1, 4, false, now) == Arrival::nobody);
  ask("a:0");
  ask("a:1");
  ask("b:0", 0);  // not of that host
  CHECK_FALSE(job.take_horovod_epoch());
  ask("b:0", 1);
  CHECK(take_all<BeginEpoch>().size() == 3);
  const auto epoch = job.take_horovod_epoch();
  REQUIRE(epoch);
  REQUIRE(epoch->places.size() == 5);
  CHECK(epoch->places[4].host == "c");
  CHECK(epoch->by_last_name.at("a:1") == 1);
  CHECK_FALSE(epoch->by_last_name.contains("c:0"));
  CHECK_FALSE(job.take_horovod_epoch());
  CHECK(job.horovod_arrives(2, 4, false, now) == Arrival::member);
  job.horovod_met(now);
  // The next word finds the new epoch.
  CHECK(job.waits_for_horovod_places());
  ask("c:1", 2);
  take();
}

TEST_CASE_METHOD(HorovodJobFixture, "rank 0 is told once it can be", "[job][horovod]") {
  run_horovod();
  kill(0);
  CHECK(take_all<EndSlot>().size() == 1);
  REQUIRE(end(1, ExitKind::signaled, SIGTERM) == Errc::ok);
  ask("b:0", 1);
  REQUIRE(job.take_horovod_epoch());
  job.horovod_met(now);
  // b is rank 0 now, and leaves when c has come. It has had two slots, of which one is new.
  REQUIRE(from_driver(HostsListed{{{1, "b", 1, true}, {2, "c", 1, true}}, {}}) == Errc::ok);
  ready(2, 5002);
  take();
  REQUIRE(from_agent(2, RankStarted{4, 2004}, job.membership().epoch()) == Errc::ok);
  CHECK(job.horovod_arrives(2, 1, false, now) == Arrival::newcomer);
  auto notices = take_all<HorovodNotice>();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].first == 1);
  ask("b:0", 1);
  REQUIRE(job.take_horovod_epoch());
  job.horovod_met(now);
  REQUIRE(from_driver(HostsListed{{{2, "c", 1, true}}, {}}) == Errc::ok);
  notices = take_all<HorovodNotice>();
  REQUIRE(notices.size() == 1);
  CHECK(notices[0].second.number == 2);
  ask("b:0", 1);
  ask("c:0", 2);
  const auto epoch = job.take_horovod_epoch();
  REQUIRE(epoch);
  CHECK(epoch->places.front().host == "c");
  job.horovod_met(now);
  take();
  // c has not said yet where it is told of changes.
  REQUIRE(from_driver(HostsListed{{{2, "c", 2, true}}, {}}) == Errc::ok);
  take();
  REQUIRE(from_agent(2, RankStarted{5, 2005}, job.membership().epoch()) == Errc::ok);
  CHECK(job.horovod_arrives(2, 1, false, now) == Arrival::newcomer);
  CHECK(take_all<HorovodNotice>().empty());
  enter_horovod("c:0", 2);
  CHECK(take_all<HorovodNotice>().size() == 1);
}

TEST_CASE_METHOD(HorovodJobFixture, "a Horovod rank that ends with 0 is done", "[job][horovod]") {
  run_horovod();
  REQUIRE(end(2, ExitKind::exited, 0) == Errc::ok);
  CHECK(lines().empty());
  REQUIRE(end(0, ExitKind::exited, 0) == Errc::ok);
  REQUIRE(end(1, ExitKind::exited, 0) == Errc::ok);
  CHECK(job.state() == JobState::ended);
  CHECK(job.verdict().cause == EndCause::success);
}

TEST_CASE_METHOD(HorovodJobFixture, "a rank whose words are not understood goes on all the same",
                 "[job][horovod]") {
  ready(0, 5000);
  ready(1, 5001);
  REQUIRE(from_agent(1, LaunchChecked{}) == Errc::ok);
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    REQUIRE(from_agent(rank / 2, RankStarted{rank, 1000 + rank}) == Errc::ok);
  take();
  job.horovod_entered(0, "a:0", "what?", now);
  const auto said = lines();
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("what a:0 tells of itself as a Horovod program is not understood") == 0);
  enter_horovod("a:1");
  enter_horovod("b:0", 1);
  CHECK(job.waits_for_horovod_places());
  // Nor does a stranger's word count.
  enter_horovod("x:0");
  enter_horovod("b:0", 0);
}

}  // namespace
}  // namespace hvdrun
