#include "tests/catch.h"
#include "worker/agent/ranks/kill_ladder.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

const KillSteps kTermAndFive{{SIGTERM, 5000}};

TEST_CASE("a signal, the grace, then the kill, once", "[ladder]") {
  KillLadder ladder;
  const KillLadder::TimePoint now{};
  CHECK_FALSE(ladder.started());
  CHECK_FALSE(ladder.tick(now));
  CHECK(ladder.start(now, kTermAndFive) == SIGTERM);
  CHECK(ladder.started());
  CHECK(ladder.next_deadline() == now + 5s);
  CHECK_FALSE(ladder.tick(now + 4999ms));
  CHECK(ladder.tick(now + 5s) == SIGKILL);
  CHECK_FALSE(ladder.tick(now + 6s));
  CHECK_FALSE(ladder.next_deadline());
  CHECK(ladder.started());
  CHECK_FALSE(ladder.start(now + 7s, kTermAndFive));
}

TEST_CASE("every rung in its turn", "[ladder]") {
  KillLadder ladder;
  const KillLadder::TimePoint now{};
  CHECK(ladder.start(now, {{SIGINT, 1000}, {SIGTERM, 2000}}) == SIGINT);
  CHECK_FALSE(ladder.tick(now + 999ms));
  CHECK(ladder.tick(now + 1s) == SIGTERM);
  CHECK(ladder.next_deadline() == now + 3s);
  CHECK(ladder.tick(now + 3s) == SIGKILL);
}

TEST_CASE("no rung at all is a kill at once", "[ladder]") {
  KillLadder ladder;
  CHECK(ladder.start({}, {}) == SIGKILL);
  CHECK_FALSE(ladder.next_deadline());
}

TEST_CASE("a second start brings the end nearer and never puts it off", "[ladder]") {
  KillLadder ladder;
  const KillLadder::TimePoint now{};
  ladder.start(now, kTermAndFive);
  CHECK_FALSE(ladder.start(now + 1s, {{SIGTERM, 10'000}}));
  CHECK(ladder.next_deadline() == now + 5s);
  CHECK_FALSE(ladder.start(now + 1s, {}));
  CHECK(ladder.tick(now + 1s) == SIGKILL);
}

}  // namespace
}  // namespace hvdrun
