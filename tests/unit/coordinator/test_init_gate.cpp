
#include "coordinator/init_gate.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Ranks = std::vector<std::uint32_t>;
using std::chrono::seconds;

struct GateFixture {
  InitGate gate{3, InitWatch("hvd::init", seconds(60))};
  TimePoint now{seconds(100)};
  // Ranks are in the fence; what comes of it.
  std::optional<FenceRelease> enter(Ranks ranks, std::uint32_t fence = 0) {
    FenceEnter message;
    message.fence = fence;
    message.ranks = std::move(ranks);
    Errc fault = Errc::ok;
    auto release = gate.enter(message, now, fault);
    REQUIRE(fault == Errc::ok);
    return release;
  }
};

TEST_CASE_METHOD(GateFixture, "ranks come, enter the fence and are through", "[init]") {
  CHECK(gate.is_empty());
  gate.came({0, 2}, now);
  CHECK(gate.here() == Ranks{0, 2});
  CHECK(gate.inside().empty());
  CHECK(gate.watch(now).missing() == Ranks{1});
  CHECK_FALSE(enter({0}));
  CHECK(gate.is_inside(0));
  gate.came({1}, now);
  CHECK(gate.watch(now).missing().empty());
  gate.doubt().end = true;
  gate.set_known_links("two have no connection");
  CHECK(enter({1, 2}));
  CHECK(gate.is_empty());
  CHECK(gate.watch(now).waiting().empty());
  CHECK_FALSE(gate.doubt().any());
  CHECK(gate.known_links().empty());
}

TEST_CASE_METHOD(GateFixture, "those in the fence are told of a rank that is gone", "[init]") {
  gate.came({1, 2}, now);
  CHECK_FALSE(gate.break_off(0, now));  // nobody is in it
  CHECK_FALSE(enter({2}));
  gate.left(1, now);
  CHECK(gate.were_here() == Ranks{1});
  const auto failed = gate.break_off(1, now);
  REQUIRE(failed);
  CHECK(failed->reason == "rank 1 ended in hvd::init()");
  CHECK(gate.is_empty());
  CHECK_FALSE(enter({0}));
  CHECK(gate.break_off(1, now)->reason == "rank 1 ended before it called hvd::init()");
}

TEST_CASE_METHOD(GateFixture, "once nobody is left, why they gave up is asked all the same",
                 "[init]") {
  gate.came({0}, now);
  gate.doubt().cause = true;
  gate.doubt().ahead = true;
  gate.left(0, now);
  CHECK(gate.doubt().cause);
  CHECK_FALSE(gate.doubt().ahead);
}

TEST_CASE_METHOD(GateFixture, "a rank that has exited adds a moment to look again", "[init]") {
  CHECK_FALSE(gate.next_deadline(true));
  gate.came({0}, now);
  const auto watched = gate.next_deadline(false);
  REQUIRE(watched);
  CHECK_FALSE(gate.is_hopeless(1, now));
  CHECK(gate.next_deadline(false) == watched);
  CHECK(*gate.next_deadline(true) < *watched);
}

TEST_CASE_METHOD(GateFixture, "a new epoch has nobody of the old one, and names its own ranks",
                 "[init]") {
  gate.came({0, 1, 2}, now);
  CHECK_FALSE(enter({0, 1}));
  gate.doubt().cause = true;
  gate.set_known_links("two have no connection");
  gate.begin_epoch(3, {2, 0}, now);  // slot 2 is rank 0 now, and slot 0 is rank 1
  CHECK(gate.is_empty());
  CHECK(gate.inside().empty());
  CHECK(gate.watch(now).waiting().empty());
  CHECK_FALSE(gate.doubt().any());
  CHECK(gate.known_links().empty());
  gate.came({1}, now);  // takes no part
  CHECK(gate.is_empty());
  gate.came({0}, now);
  CHECK(gate.is_here(0));
  CHECK(gate.here() == Ranks{1});
  CHECK(gate.watch(now).waiting() == Ranks{1});
  CHECK(gate.watch(now).missing() == Ranks{0});
  CHECK_FALSE(enter({0}));
  CHECK(gate.is_inside(0));
  CHECK(gate.inside() == Ranks{1});
  CHECK(gate.break_off(2, now)->reason == "rank 0 ended before it called hvd::init()");
  CHECK_FALSE(enter({0}));
  gate.came({2}, now);
  gate.left(2, now);
  CHECK(gate.were_here() == Ranks{0});
  CHECK(gate.break_off(2, now)->reason == "rank 0 ended in hvd::init()");
  CHECK_FALSE(enter({2}));
  CHECK(enter({0}));
}

}  // namespace
}  // namespace hvdrun
