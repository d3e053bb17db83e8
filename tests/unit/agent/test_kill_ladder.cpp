#include <catch2/catch.hpp>

#include "worker/agent/kill_ladder.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Step = KillLadder::Step;

TEST_CASE("a signal, the grace, then the kill, once", "[ladder]") {
  KillLadder ladder;
  const KillLadder::TimePoint now{};
  CHECK_FALSE(ladder.started());
  CHECK(ladder.tick(now) == Step::none);
  CHECK(ladder.start(now, 5s) == Step::signal);
  CHECK(ladder.started());
  CHECK(ladder.next_deadline() == now + 5s);
  CHECK(ladder.tick(now + 4999ms) == Step::none);
  CHECK(ladder.tick(now + 5s) == Step::kill);
  CHECK(ladder.tick(now + 6s) == Step::none);
  CHECK_FALSE(ladder.next_deadline());
  CHECK(ladder.started());
  CHECK(ladder.start(now + 7s, 5s) == Step::none);
}

TEST_CASE("a second start shortens the grace and never lengthens it", "[ladder]") {
  KillLadder ladder;
  const KillLadder::TimePoint now{};
  ladder.start(now, 5s);
  CHECK(ladder.start(now + 1s, 10s) == Step::none);
  CHECK(ladder.next_deadline() == now + 5s);
  CHECK(ladder.start(now + 1s, 0s) == Step::none);
  CHECK(ladder.tick(now + 1s) == Step::kill);
}

}  // namespace
}  // namespace hvdrun
