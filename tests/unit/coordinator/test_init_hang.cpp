// The ranks that hold up an init to which all have come.
#include <numeric>

#include "coordinator/init_hang.h"
#include "tests/catch.h"
#include "tests/unit/coordinator/stall_fixture.h"

namespace hvdrun {
namespace {

using Ranks = std::vector<std::uint32_t>;

struct HangFixture : StallFixture {
  // The rank answers that it waits, for connections to these.
  void waits(std::uint32_t rank, Ranks unconnected = {}) {
    RankPicture& picture = says(rank, {}, "");
    picture.report.meeting = true;
    picture.report.unconnected = std::move(unconnected);
  }
};

TEST_CASE_METHOD(HangFixture, "a rank that does not answer is named, not those that wait for it",
                 "[init hang]") {
  waits(0, {3});
  waits(1);
  waits(2);
  says(3, {}, "").answered = false;
  ranks.at(3).probe.state = "T";
  waits(4);
  const InitHang hang = find_init_hang({5}, {0, 1, 2, 3, 4}, ranks, 6);
  CHECK(hang.ranks == Ranks{3});
  CHECK(hang.links.empty());
  CHECK(hang.waiting == 5);
  CHECK(init_hang_words(hang) == "rank 3");
  CHECK(init_hang_cause(hang, members) == "rank 3 hangs in hvd::init");
  const auto lines = init_hang_lines(hang, ranks, members);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "  rank 3 on b (pid 103, train): stopped in futex_do_wait");
}

TEST_CASE_METHOD(HangFixture, "a rank of a host that is silent, and a busy one, are named",
                 "[init hang]") {
  waits(0);
  says(1, {}, "");  // answers, and waits for nobody
  const InitHang hang = find_init_hang({}, {0, 1, 4, 5}, ranks, 6);
  CHECK(hang.ranks == Ranks{1, 4, 5});
  CHECK(hang.waiting == 1);
  CHECK(init_hang_cause(hang, members) == "rank 1, 4, 5 hang in hvd::init");
  CHECK(init_hang_lines(hang, ranks, members).at(1) ==
        "  rank 4 on b (pid 104): its host has not answered");
}

TEST_CASE_METHOD(HangFixture, "connections that do not come up are named once, by both ends",
                 "[init hang]") {
  waits(0, {3});
  waits(3, {0});
  waits(1);
  const InitHang hang = find_init_hang({2, 4, 5}, {0, 1, 3}, ranks, 6);
  CHECK(hang.ranks.empty());
  REQUIRE(hang.links.size() == 1);
  CHECK(hang.links[0] == std::pair(0U, 3U));
  CHECK(hang.waiting == 6);
  CHECK(init_hang_words(hang) == "connections between hosts");
  CHECK(init_hang_cause(hang, members) ==
        "rank 0 on a and rank 3 on b get no connection to each other in hvd::init");
  CHECK(init_hang_lines(hang, ranks, members) ==
        std::vector<std::string>{"  rank 0 on a and rank 3 on b get no connection to each other"});
}

TEST_CASE_METHOD(HangFixture, "of many connections the first are named", "[init hang]") {
  for (std::uint32_t rank = 0; rank < 3; ++rank) waits(rank, {3, 4, 5});
  const InitHang hang = find_init_hang({}, {0, 1, 2}, ranks, 6);
  CHECK(hang.links.size() == 9);
  CHECK(init_hang_cause(hang, members) ==
        "rank 0 on a and rank 3 on b get no connection to each other in hvd::init, nor do 8 other "
        "pairs");
  const auto lines = init_hang_lines(hang, ranks, members);
  REQUIRE(lines.size() == 9);
  CHECK(lines[8] == "  and 1 more pairs");
}

TEST_CASE_METHOD(HangFixture, "where all wait for all there is something to say, too",
                 "[init hang]") {
  waits(0);
  waits(3);
  const InitHang hang = find_init_hang({1, 2}, {0, 3}, ranks, 6);
  CHECK(hang.ranks.empty());
  CHECK(hang.links.empty());
  CHECK(init_hang_cause(hang, members) == "all ranks are in hvd::init, which does not get on");
}

TEST_CASE_METHOD(HangFixture, "what a rank says may name ranks that are not there, and very many",
                 "[init hang]") {
  waits(0, {0, 6, 4'000'000'000, 3});
  const InitHang hang = find_init_hang({}, {0}, ranks, 6);
  CHECK(hang.links == std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 3}});
  CHECK(!hang.links_cut);
  Ranks all(100'000);
  std::iota(all.begin(), all.end(), 0U);
  waits(0, all);
  const InitHang large = find_init_hang({}, {0}, ranks, 100'000);
  CHECK(large.links_cut);
  CHECK(
      init_hang_cause(large, members)
          .ends_with(
              " get no connection to each other in hvd::init, nor do more than 65535 other pairs"));
}

}  // namespace
}  // namespace hvdrun
