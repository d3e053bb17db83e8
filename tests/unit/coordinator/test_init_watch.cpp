#include <catch2/catch.hpp>

#include "coordinator/init_watch.h"

namespace hvdrun {
namespace {

using Say = InitWatch::Say;
using std::chrono::seconds;

TEST_CASE("who waits in init is told of after 10, 20, 40 s", "[init watch]") {
  InitWatch watch;
  const TimePoint start{};
  CHECK(watch.tick(start, seconds(0)) == Say::nothing);
  CHECK_FALSE(watch.next_deadline(seconds(0)));
  watch.update(1, start);
  watch.update(3, start + seconds(5));  // the wait goes on: it began with the first
  CHECK(watch.next_deadline(seconds(0)) == start + seconds(10));
  CHECK(watch.tick(start + seconds(9), seconds(0)) == Say::nothing);
  CHECK(watch.tick(start + seconds(10), seconds(0)) == Say::warning);
  CHECK(watch.waited(start + seconds(10)) == seconds(10));
  CHECK(watch.tick(start + seconds(19), seconds(0)) == Say::nothing);
  CHECK(watch.tick(start + seconds(20), seconds(0)) == Say::warning);
  CHECK(watch.next_deadline(seconds(0)) == start + seconds(40));
}

TEST_CASE("a limit ends the wait, and the end of the wait the watch", "[init watch]") {
  InitWatch watch;
  const TimePoint start{};
  watch.update(1, start);
  CHECK(watch.next_deadline(seconds(3)) == start + seconds(3));
  CHECK(watch.next_deadline(seconds(30)) == start + seconds(10));
  CHECK(watch.tick(start + seconds(2), seconds(3)) == Say::nothing);
  CHECK(watch.tick(start + seconds(3), seconds(3)) == Say::too_long);
  watch.update(0, start + seconds(4));
  CHECK(watch.tick(start + seconds(60), seconds(3)) == Say::nothing);
  watch.update(1, start + seconds(60));
  CHECK(watch.tick(start + seconds(62), seconds(3)) == Say::nothing);
}

}  // namespace
}  // namespace hvdrun
