#include <chrono>
#include <numeric>

#include "tests/catch.h"
#include "worker/hvd/comm/link/accept_room.h"
#include "worker/hvd/comm/link/dial_queue.h"

using namespace hvdrun;
using namespace std::chrono_literals;

namespace {

const DialQueue::TimePoint kDialNow{1'000'000s};

}  // namespace

TEST_CASE("so many ranks are dialed at once, the next when one is connected", "[links][crowd]") {
  std::vector<std::size_t> ranks(DialQueue::kAtOnce + 2);
  std::iota(ranks.begin(), ranks.end(), 7U);
  DialQueue queue(ranks);
  for (std::size_t i = 0; i < DialQueue::kAtOnce; ++i) REQUIRE(queue.next(kDialNow) == ranks[i]);
  CHECK_FALSE(queue.next(kDialNow));
  queue.done(8);
  CHECK(queue.next(kDialNow) == ranks[DialQueue::kAtOnce]);
  CHECK_FALSE(queue.next(kDialNow));
  CHECK_FALSE(queue.wakes_at());
  queue.done(7);
  queue.done(9);
  // There may be no other event that would wake who asks.
  REQUIRE(queue.wakes_at());
  CHECK(*queue.wakes_at() < kDialNow);
  CHECK(queue.next(kDialNow) == ranks[DialQueue::kAtOnce + 1]);
  CHECK_FALSE(queue.next(kDialNow));
}

TEST_CASE("who hangs up is dialed again, later each time, and others meanwhile", "[links][crowd]") {
  DialQueue queue({3, 4});
  REQUIRE(queue.next(kDialNow) == 3U);
  CHECK(queue.again(3, kDialNow));
  CHECK(queue.next(kDialNow + 49ms) == 4U);
  CHECK(queue.wakes_at() == kDialNow + 50ms);
  CHECK_FALSE(queue.next(kDialNow + 49ms));
  auto now = kDialNow + 50ms;
  for (const auto pause : {100ms, 200ms, 400ms, 800ms}) {
    REQUIRE(queue.next(now) == 3U);
    REQUIRE(queue.again(3, now));
    CHECK_FALSE(queue.next(now + pause - 1ms));
    now += pause;
  }
  REQUIRE(queue.next(now) == 3U);
  CHECK_FALSE(queue.again(3, now));
}

TEST_CASE("a connection to nobody known has its time, and less once the room is full",
          "[links][crowd]") {
  AcceptRoom room;
  CHECK(room.is_empty());
  for (std::size_t i = 1; i < AcceptRoom::kPlaces; ++i) room.enter();
  CHECK(room.has_place());
  CHECK(room.leaves_at(kDialNow, false) == kDialNow + 10s);
  room.enter();
  CHECK_FALSE(room.has_place());
  CHECK(room.leaves_at(kDialNow, false) == kDialNow + 250ms);
  CHECK(room.leaves_at(kDialNow, true) == kDialNow + 10s);
  room.leave();
  CHECK(room.leaves_at(kDialNow, false) == kDialNow + 10s);
  // Without descriptors there is no room for more than are inside.
  room.shrink();
  CHECK_FALSE(room.has_place());
  CHECK(room.leaves_at(kDialNow, false) == kDialNow + 250ms);
  room.leave();
  CHECK(room.has_place());
  room.enter();
  CHECK_FALSE(room.has_place());
  room.widen();
  CHECK(room.has_place());
}
