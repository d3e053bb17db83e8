// The rules of Horovod's elastic programs: a newcomer is started for one certain epoch, and a loss
// leaves out a host.
#include "tests/unit/coordinator/elastic/elastic_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

// a: 0 and 1, b: 2 and 3; c and d are hosts 2 and 3.
struct PromisedFixture : ElasticFixture {
  explicit PromisedFixture(std::uint32_t min_np = 1) : ElasticFixture(min_np) {
    job.hosts_change(100);
    job.add_host({"c", 0});
    job.add_host({"d", 0});
    job.follow_horovod({"a", "a", "b", "b"});
  }
  void list(std::vector<ElasticJob::Host> hosts, std::initializer_list<std::uint32_t> opened) {
    job.list_hosts(std::move(hosts), now);
    for (const std::uint32_t host : opened) job.host_back(host, now);
  }
};
// None of the hosts may change; a has a second name, under which it has rank 1.
struct FixedHosts : ElasticFixture {
  FixedHosts() : ElasticFixture(1) { job.follow_horovod({"a", "me", "b", "b"}); }
};

TEST_CASE_METHOD(PromisedFixture, "hosts that are opened together come in together",
                 "[elastic][horovod]") {
  run();
  list({{0, 2}, {1, 2}, {2, 1}, {3, 1}}, {2});
  CHECK(did() == "add 4 on 2; add 5 on 3");
  wait(500ms);
  job.host_back(3, now);
  CHECK(did() == "start 4; start 5");
  come({4});
  wait(2s);
  CHECK(did().empty());  // 4 has been told that there are six
  come({5});
  CHECK(did() == "ask");
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1 2 3 4 5");
}

TEST_CASE_METHOD(PromisedFixture, "a host that is not opened is not waited for",
                 "[elastic][horovod]") {
  run();
  list({{0, 2}, {1, 2}, {2, 1}, {3, 1}}, {2});
  did();
  wait(ElasticJob::kTogether);
  CHECK(did() == "start 4");
  job.host_back(3, now);
  CHECK(did() == "start 5");
  come({5});
  CHECK(did().empty());
  come({4});
  CHECK(did() == "ask");
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1 2 3 4");
  job.opened(now);
  CHECK(did() == "ask");
  come({0, 1, 2, 3, 4});
  CHECK(did() == "begin 0 1 2 3 4 5");
}

TEST_CASE_METHOD(PromisedFixture, "a newcomer whose epoch does not come is started for another",
                 "[elastic][horovod]") {
  run();
  list({{0, 2}, {1, 2}, {2, 1}, {3, 1}}, {3, 2});
  CHECK(did() == "add 4 on 2; add 5 on 3; start 4; start 5");
  come({4});
  SECTION("as another one fails") {
    lose(5);
    CHECK(did() == "retire 4");
    CHECK(lines == Lines{"the new process of slot 5 was killed; no rank is started on d"});
  }
  SECTION("as a member is lost") {
    lose(2);
    CHECK(did() == "retire 3");
    job.lost(3, "", now);
    come({0, 1});
    CHECK(did() == "begin 0 1");
    job.opened(now);
    CHECK(did() == "retire 4");
  }
  SECTION("as another one is slow") {
    wait(20s);
    CHECK(did().empty());
    wait(10s);
    CHECK(did() == "retire 4");
  }
  job.lost(4, "", now);
  CHECK(did() == "start 4");
  CHECK(job.start_of(4) == 1);
  come({4});
  CHECK(did() == "ask");
}

TEST_CASE_METHOD(PromisedFixture, "a loss leaves out the host", "[elastic][horovod]") {
  run();
  lose(0);
  CHECK(did() == "retire 1");
  CHECK(lines == Lines{"rank 0 was killed; no rank is started on a"});
  come({2, 3});
  CHECK(did() == "begin 2 3");
  job.lost(1, "", now);
  job.opened(now);
  CHECK(did().empty());
  CHECK(lines.empty());
  // Not with more slots, either.
  list({{0, 4}, {1, 2}}, {});
  CHECK(did().empty());
  CHECK(job.slots() == 4);
}

TEST_CASE_METHOD(PromisedFixture, "a host that was left out comes back after a while",
                 "[elastic][horovod]") {
  job.cool_down(10s, 15s);
  run();
  lose(0);
  did();
  CHECK(lines == Lines{"rank 0 was killed; no rank is started on a for 10 s"});
  job.lost(1, "", now);
  come({2, 3});
  did();
  job.opened(now);
  wait(9s);
  CHECK(did().empty());
  wait(1s);
  CHECK(did() == "start 0; start 1");
  come({0, 1});
  CHECK(did() == "ask");
  come({2, 3});
  CHECK(did() == "begin 2 3 0 1");
  job.opened(now);
  // The next time is twice as long, but for the limit.
  lose(1);
  did();
  CHECK(lines == Lines{"rank 3 was killed; no rank is started on a for 15 s"});
}

TEST_CASE_METHOD(PromisedFixture, "a newcomer's loss leaves out the members of its host",
                 "[elastic][horovod]") {
  run();
  list({{0, 3}}, {});
  CHECK(did() == "add 4 on 0; start 4; ask");
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1; retire 2; retire 3");
  job.opened(now);
  // Slot 4 was promised that epoch and has not come; its host is the only one.
  lose(4);
  CHECK(did() == "retire 0; retire 1; all lost 4");
}

struct FourNeeded : PromisedFixture {
  FourNeeded() : PromisedFixture(4) {}
};

TEST_CASE_METHOD(FourNeeded, "newcomers are started when they are enough together",
                 "[elastic][horovod]") {
  run();
  list({{0, 2}, {1, 2}, {2, 1}, {3, 1}}, {});
  did();
  lose(2);
  job.lost(3, "", now);
  come({0, 1});
  did();
  job.host_back(2, now);
  wait(5s);
  CHECK(did().empty());  // three would be too few
  job.host_back(3, now);
  wait(1s);
  CHECK(did() == "start 4; start 5");
  come({4, 5});
  CHECK(did() == "begin 0 1 4 5");
}

TEST_CASE_METHOD(FixedHosts, "a host is what Horovod takes for one", "[elastic][horovod]") {
  run();
  lose(1);
  CHECK(did().empty());
  CHECK(lines == Lines{"rank 1 was killed; no rank is started on me"});
  come({0, 2, 3});
  CHECK(did() == "begin 0 2 3");
}

TEST_CASE_METHOD(FixedHosts, "with the last host's loss the job ends", "[elastic][horovod]") {
  run();
  lose(2);
  lose(1);
  CHECK(did() == "retire 3");
  lose(0);
  CHECK(did() == "all lost 2");
}

TEST_CASE_METHOD(FixedHosts, "one that cools down is waited for", "[elastic][horovod]") {
  job.cool_down(5s, 5s);
  run();
  lose(2);
  job.lost(3, "", now);
  come({0, 1});
  CHECK(did() == "retire 3; begin 0 1");
  job.opened(now);
  wait(5s);
  CHECK(did() == "start 2; start 3");
}

TEST_CASE_METHOD(ElasticFixture, "a slot that failed too often is tried again after a while",
                 "[elastic]") {
  job.cool_down(60s, 100s);
  run();
  for (int i = 0; i < 3; ++i) {
    lose(3);
    did();
    if (i == 2) break;
    wait(2s);
    did();
    come({0, 1, 2});
    did();
    job.opened(now);
    come({3});
    did();
    come({0, 1, 2});
    REQUIRE(did() == "begin 0 1 2 3");
    job.opened(now);
  }
  CHECK(lines == Lines{"rank 3 was killed; it is not started again for 60 s, as that was 3 times "
                       "within 10 minutes"});
  come({0, 1, 2});
  did();
  job.opened(now);
  wait(59s);
  CHECK(did().empty());
  wait(1s);
  CHECK(did() == "start 3");
  // It has a window of its own again.
  lose(3);
  did();
  CHECK(lines == Lines{"the new process of slot 3 was killed; it is started again"});
}

}  // namespace
}  // namespace hvdrun
