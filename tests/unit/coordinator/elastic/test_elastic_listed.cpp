// Hosts that come and go while an elastic job runs.
#include "tests/unit/coordinator/elastic/elastic_fixture.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

// a: 0 and 1, b: 2 and 3; c is host 2.
struct ListedFixture : ElasticFixture {
  explicit ListedFixture(std::uint32_t min_np = 2, std::uint32_t max_np = 100)
      : ElasticFixture(min_np) {
    job.hosts_change(max_np);
    job.add_host({"c", 0});
  }
  struct Listed {
    ElasticJob::Host host;
    bool comes = false;  // it has been opened
  };
  static Listed a(std::uint32_t slots = 2) { return {{0, slots}}; }
  static Listed b(std::uint32_t slots = 2) { return {{1, slots}}; }
  static Listed c(std::uint32_t slots, bool comes = false) { return {{2, slots}, comes}; }
  void list(const std::vector<Listed>& hosts) {
    std::vector<ElasticJob::Host> all;
    for (const Listed& one : hosts) all.push_back(one.host);
    job.list_hosts(all, now);
    for (const Listed& one : hosts)
      if (one.comes) job.host_back(one.host.index, now);
  }
  // Those that have been started come to their doors, and all members when they are asked.
  void let_in(std::initializer_list<std::uint32_t> newcomers,
              std::initializer_list<std::uint32_t> members) {
    come(newcomers);
    wait(ElasticJob::kTogether);
    REQUIRE(did() == "ask");
    come(members);
  }
};
struct AtMostFour : ListedFixture {
  AtMostFour() : ListedFixture(2, 4) {}
};
struct AllFour : ListedFixture {
  AllFour() : ListedFixture(4) {}
};
struct OneAtLeast : ListedFixture {
  OneAtLeast() : ListedFixture(1) {}
};

TEST_CASE_METHOD(ListedFixture, "a host that comes gives ranks to the job", "[elastic]") {
  run();
  list({a(), b(), c(2)});
  CHECK(did() == "add 4 on 2; add 5 on 2");
  CHECK(job.state_of(4) == SlotState::away);
  job.host_back(2, now);
  CHECK(did() == "start 4; start 5");
  CHECK(job.start_of(4) == 0);
  let_in({4}, {});
  come({5, 0, 1, 2, 3});
  CHECK(did() == "begin 0 1 2 3 4 5");
  CHECK(lines.empty());
}

TEST_CASE_METHOD(ListedFixture, "a host that is there already may get more slots", "[elastic]") {
  run();
  list({a(3), b()});
  CHECK(did() == "add 4 on 0; start 4");
  let_in({4}, {0, 1, 2, 3});
  // Its ranks are a row.
  CHECK(did() == "begin 0 1 4 2 3");
}

TEST_CASE_METHOD(ListedFixture, "a host that is not listed any more is left", "[elastic]") {
  run();
  list({a()});
  CHECK(did() == "ask");
  CHECK(job.state_of(2) == SlotState::member);
  come({0, 1, 2});
  CHECK(did().empty());
  come({3});
  CHECK(did() == "begin 0 1; retire 2; retire 3");
  CHECK(lines == Lines{"rank 2 on b has left: 2 go on without it",
                       "rank 3 on b has left: 2 go on without it"});
  CHECK(job.state_of(3) == SlotState::ending);
  job.opened(now);
  lose(2);
  lose(3);
  CHECK(did().empty());
  CHECK(lines.empty());
  CHECK(job.state_of(2) == SlotState::unwanted);
  SECTION("and comes again") {
    job.host_gone(1);
    list({a(), b()});
    CHECK(did().empty());
    CHECK(job.state_of(2) == SlotState::away);
    job.host_back(1, now);
    CHECK(did() == "start 2; start 3");
    CHECK(job.start_of(2) == 1);
  }
  SECTION("and its end ends nothing") {
    job.host_lost({2, 3}, "host b is lost", true, now);
    CHECK(did().empty());
    finish(0);
    finish(1);
    CHECK(did() == "finished");
  }
}

TEST_CASE_METHOD(ListedFixture, "one that leaves is a loss when it dies before", "[elastic]") {
  run();
  list({a(), b(1)});
  CHECK(did() == "ask");
  lose(3);
  CHECK(lines.empty());
  CHECK(did().empty());
  CHECK(lines == Lines{"rank 3 was killed; it was to leave anyway"});
  CHECK(job.state_of(3) == SlotState::unwanted);
  come({0, 1, 2});
  CHECK(did() == "begin 0 1 2");
}

TEST_CASE_METHOD(ListedFixture, "a change that is undone before the commit changes nothing",
                 "[elastic]") {
  run();
  list({a()});
  CHECK(did() == "ask");
  list({a(), b()});
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1 2 3");
}

TEST_CASE_METHOD(ListedFixture, "who leaves stays while there would be too few", "[elastic]") {
  run();
  list({a(1)});
  CHECK(did().empty());
  list({a(1), c(1, true)});
  CHECK(did() == "add 4 on 2; start 4");
  // The only one that stays could be lost before 4 has the state.
  let_in({4}, {0, 1, 2, 3});
  CHECK(did() == "begin 0 1 2 3 4");
  job.opened(now);
  CHECK(did() == "ask");
  come({0, 1, 2, 3, 4});
  CHECK(did() == "begin 0 4; retire 1; retire 2; retire 3");
}

TEST_CASE_METHOD(ListedFixture, "who leaves goes as others come, if two stay", "[elastic]") {
  run();
  list({a(), c(1, true)});
  CHECK(did() == "add 4 on 2; ask; start 4");
  come({4, 0, 1, 2, 3});
  CHECK(did() == "begin 0 1 4; retire 2; retire 3");
}

TEST_CASE_METHOD(ListedFixture, "a host that is told to go is left, and used again after a while",
                 "[elastic]") {
  run();
  job.host_leaves(1, now);
  CHECK(did() == "ask");
  job.host_leaves(1, now);
  CHECK(did().empty());
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1; retire 2; retire 3");
  job.opened(now);
  for (const std::uint32_t slot : {2U, 3U}) job.lost(slot, "", now);
  // It is listed all the time.
  list({a(), b()});
  CHECK(did().empty());
  job.host_gone(1);
  wait(59s);
  CHECK(did().empty());
  CHECK(job.state_of(2) == SlotState::unwanted);
  wait(1s);
  CHECK(job.state_of(2) == SlotState::away);
  job.host_back(1, now);
  CHECK(did() == "start 2; start 3");
}

TEST_CASE_METHOD(ElasticFixture, "a host of a fixed list that is told to go is left", "[elastic]") {
  run();
  job.host_leaves(1, now);
  CHECK(did() == "ask");
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1; retire 2; retire 3");
  job.opened(now);
  for (const std::uint32_t slot : {2U, 3U}) job.lost(slot, "", now);
  job.host_lost({2, 3}, "host b is lost", true, now);
  job.host_gone(1);
  wait(ElasticJob::kLeavingPause);
  CHECK(job.state_of(2) == SlotState::away);
  job.host_back(1, now);
  CHECK(did() == "start 2; start 3");
}

TEST_CASE_METHOD(OneAtLeast, "all hosts change, and the state is handed on", "[elastic]") {
  run();
  list({c(2, true)});
  CHECK(did() == "add 4 on 2; add 5 on 2; start 4; start 5");
  let_in({4, 5}, {0, 1, 2, 3});
  CHECK(did() == "begin 0 1 2 3 4 5");
  job.opened(now);
  CHECK(did() == "ask");
  come({0, 1, 2, 3, 4, 5});
  CHECK(did() == "begin 4 5; retire 0; retire 1; retire 2; retire 3");
}

TEST_CASE_METHOD(AtMostFour, "there are no more ranks than --max-np", "[elastic]") {
  run();
  list({a(), b(), c(8)});
  CHECK(did().empty());
  // Those that are there stay, wherever they are listed.
  list({c(8), b(), a()});
  CHECK(did().empty());
  list({c(8), b()});
  CHECK(did() == "add 4 on 2; add 5 on 2; ask");
}

TEST_CASE_METHOD(AtMostFour, "a slot that is left out gives its place to another", "[elastic]") {
  run();
  list({a(), b(), c(1, true)});
  for (int i = 0; i < 2; ++i) {
    lose(3);
    wait(10s);
    come({0, 1, 2});
    job.opened(now);
  }
  did();
  lose(3);
  REQUIRE(job.state_of(3) == SlotState::left_out);
  CHECK(did() == "add 4 on 2; start 4");
}

TEST_CASE_METHOD(ListedFixture, "a newcomer that is not wanted any more goes", "[elastic]") {
  run();
  list({a(), b(), c(2, true)});
  CHECK(did() == "add 4 on 2; add 5 on 2; start 4; start 5");
  come({4});
  wait(ElasticJob::kTogether);
  CHECK(did() == "ask");
  list({a(), b()});
  CHECK(did() == "retire 4; retire 5");
  // It is listed again before it has ended.
  list({a(), b(), c(1, true)});
  CHECK(did().empty());
  lose(5);
  CHECK(did().empty());
  CHECK(job.state_of(5) == SlotState::unwanted);
  lose(4);
  CHECK(did() == "start 4");
}

TEST_CASE_METHOD(AllFour, "a job with too few ranks waits for hosts to come", "[elastic]") {
  run();
  job.host_lost({2, 3}, "host b is lost", false, now);
  CHECK(did().empty());
  come({0, 1});
  CHECK(did().empty());
  wait(10s);
  CHECK(did().empty());
  CHECK(lines == Lines{"there are 2 ranks of the 4 that --min-np asks for: a host is waited for, "
                       "for 50 s at most"});
  list({a(), c(2, true)});
  CHECK(did() == "add 4 on 2; add 5 on 2; start 4; start 5");
  come({4, 5});
  CHECK(did() == "begin 0 1 4 5");
}

TEST_CASE_METHOD(ListedFixture, "nobody begins with a job that ends", "[elastic]") {
  run();
  finish(0);
  list({a(), b(), c(4, true)});
  CHECK(did().empty());
  for (const std::uint32_t slot : {1U, 2U, 3U}) finish(slot);
  CHECK(did() == "finished");
}

TEST_CASE_METHOD(ElasticFixture, "the ranks meet anew as often as they may", "[elastic]") {
  job.limit_resets(1);
  run();
  lose(3);
  come({0, 1, 2});
  CHECK(did() == "start 3; begin 0 1 2");
  job.opened(now);
  come({3});
  CHECK(did() == "ask");
  lose(2);
  come({0, 1});
  CHECK(did() == "start 2; too many");
  CHECK(end ==
        "the ranks were to meet anew, and --reset-limit allows that 1 time; rank 2 was killed");
  CHECK(job.is_over());
}

TEST_CASE_METHOD(ListedFixture, "who is lost while it is not wanted may come again", "[elastic]") {
  run();
  list({a()});
  did();
  job.host_lost({2, 3}, "host b is lost", true, now);
  CHECK(did().empty());
  CHECK(job.state_of(3) == SlotState::unwanted);
  come({0, 1});
  CHECK(did() == "begin 0 1");
  job.opened(now);
  list({a(), b()});
  CHECK(did().empty());
  CHECK(job.state_of(3) == SlotState::away);
  job.host_back(1, now);
  CHECK(did() == "start 2; start 3");
}

TEST_CASE_METHOD(AllFour, "ranks that are done are not missed on new hosts either", "[elastic]") {
  run();
  list({c(4, true)});
  did();
  come({4, 5, 6, 7});
  come({0, 1, 2, 3});
  CHECK(did().find("begin 0 1 2 3 4 5 6 7") != std::string::npos);
  job.opened(now);
  did();
  come({0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(did() == "begin 4 5 6 7; retire 0; retire 1; retire 2; retire 3");
  job.opened(now);
  for (const std::uint32_t slot : {0U, 1U, 2U, 3U}) lose(slot);
  finish(4);
  finish(5);
  come({6, 7});
  CHECK(did() == "begin 6 7");
}

struct JustFour : ListedFixture {
  JustFour() : ListedFixture(4, 4) {}
};

TEST_CASE_METHOD(JustFour, "ranks of two hosts are exchanged at once", "[elastic]") {
  run();
  list({a(), c(2, true)});
  CHECK(did() == "add 4 on 2; add 5 on 2; start 4; start 5");
  // One more would be too many, and three too few.
  come({4});
  CHECK(did().empty());
  come({5});
  CHECK(did() == "ask");
  come({0, 1, 2, 3});
  CHECK(did() == "begin 0 1 4 5; retire 2; retire 3");
}

TEST_CASE_METHOD(ListedFixture, "who has a rank stays before one that starts again", "[elastic]") {
  run();
  lose(0);
  come({1, 2, 3});
  CHECK(did() == "start 0; begin 1 2 3");
  job.opened(now);
  list({a(1), b()});
  CHECK(did() == "retire 0");
}

TEST_CASE_METHOD(ListedFixture, "hosts that come while ranks are between two inits are not missed",
                 "[elastic]") {
  run();
  for (const std::uint32_t slot : {0U, 1U, 2U, 3U}) job.leaves(slot, now);
  list({a(), b(), c(1, true)});
  CHECK(did().empty());
  come({0, 1, 2, 3});
  wait(ElasticJob::kGoodbye);
  CHECK(did().starts_with("add 4 on 2; start 4"));
}

TEST_CASE_METHOD(ListedFixture, "a host that is lost for good is not chosen again", "[elastic]") {
  run();
  list({a()});
  come({0, 1, 2, 3});
  did();
  job.opened(now);
  job.host_lost({2, 3}, "host b is lost", false, now);
  list({a(), b(4)});
  CHECK(did().empty());
  CHECK(job.state_of(2) == SlotState::left_out);
}

}  // namespace
}  // namespace hvdrun
