#include "coordinator/init_watch.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Say = InitWatch::Say;
using std::chrono::seconds;

TEST_CASE("who waits in init is told of after 10, 20, 40 s", "[init watch]") {
  InitWatch watch("hvd::init", seconds(0));
  const TimePoint start{};
  CHECK(watch.tick(start) == Say::nothing);
  CHECK_FALSE(watch.next_deadline());
  watch.update({4}, {0, 1, 2, 3}, start);
  CHECK(watch.warning(start + seconds(3)) == "1 rank waits in hvd::init since 3 s for rank 0-3");
  watch.update({1, 3, 4}, {0, 2}, start + seconds(5));  // the wait goes on
  CHECK(watch.next_deadline() == start + seconds(10));
  CHECK(watch.tick(start + seconds(9)) == Say::nothing);
  CHECK(watch.tick(start + seconds(10)) == Say::warning);
  CHECK(watch.warning(start + seconds(10)) == "3 ranks wait in hvd::init since 10 s for rank 0, 2");
  CHECK(watch.tick(start + seconds(19)) == Say::nothing);
  CHECK(watch.tick(start + seconds(20)) == Say::warning);
  CHECK(watch.next_deadline() == start + seconds(40));
}

TEST_CASE("the first warning may be earlier, not later", "[init watch]") {
  const TimePoint start{};
  InitWatch early("hvd::init", seconds(0), seconds(2));
  early.update({0}, {1}, start);
  CHECK(early.tick(start + seconds(2)) == Say::warning);
  CHECK(early.next_deadline() == start + seconds(4));
  InitWatch late("hvd::init", seconds(0), seconds(60));
  late.update({0}, {1}, start);
  CHECK(late.next_deadline() == start + seconds(10));
}

TEST_CASE("what is waited for may be no rank", "[init watch]") {
  InitWatch watch("hvd::init", seconds(0));
  const TimePoint start{};
  watch.update({0, 1}, {}, start);
  CHECK(watch.warning(2, "connections between hosts", start + seconds(4)) ==
        "2 ranks wait in hvd::init since 4 s for connections between hosts");
  CHECK(watch.warning(1, "rank 1", start + seconds(4)) ==
        "1 rank waits in hvd::init since 4 s for rank 1");
}

TEST_CASE("ranks that give up before the first warning are looked at before", "[init watch]") {
  const TimePoint start{};
  InitWatch watch("hvd::init", seconds(9), {}, seconds(4));
  watch.update({0}, {1}, start);
  CHECK(watch.next_deadline() == start + seconds(2));
  CHECK(watch.tick(start + seconds(1)) == Say::nothing);
  CHECK(watch.tick(start + seconds(2)) == Say::look);
  CHECK(watch.tick(start + seconds(2)) == Say::nothing);
  CHECK(watch.next_deadline() == start + seconds(9));
  watch.update({}, {}, start + seconds(3));
  CHECK_FALSE(watch.next_deadline());
  InitWatch patient("hvd::init", seconds(60), {}, seconds(55));
  patient.update({0}, {1}, start);
  CHECK(patient.next_deadline() == start + seconds(10));
  CHECK(patient.tick(start + seconds(10)) == Say::warning);
}

TEST_CASE("a limit ends the wait, and the end of the wait the watch", "[init watch]") {
  const TimePoint start{};
  InitWatch patient("hvd::init", seconds(30));
  patient.update({0}, {1}, start);
  CHECK(patient.next_deadline() == start + seconds(10));
  InitWatch watch("hvd::init", seconds(3));
  watch.update({0}, {1}, start);
  CHECK(watch.next_deadline() == start + seconds(3));
  CHECK(watch.tick(start + seconds(2)) == Say::nothing);
  CHECK(watch.tick(start + seconds(3)) == Say::too_long);
  // Once: who looks for the reason meanwhile needs no clock.
  CHECK_FALSE(watch.next_deadline());
  CHECK(watch.tick(start + seconds(3)) == Say::nothing);
  watch.update({}, {}, start + seconds(4));
  CHECK(watch.tick(start + seconds(60)) == Say::nothing);
  watch.update({0}, {1}, start + seconds(60));
  CHECK(watch.tick(start + seconds(62)) == Say::nothing);
  CHECK(watch.tick(start + seconds(63)) == Say::too_long);
  watch.begin_again(start + seconds(64));
  CHECK(watch.tick(start + seconds(66)) == Say::nothing);
  CHECK(watch.tick(start + seconds(67)) == Say::too_long);
}

}  // namespace
}  // namespace hvdrun
