#include <algorithm>

#include "common/net/clock_offset.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kMs = 1'000'000;
constexpr std::uint64_t kSecond = 1000 * kMs;

// The other host's clock is that far ahead; the way there and back take so long.
void ask(ClockOffset& offset, std::uint64_t now, std::uint64_t ahead, std::uint64_t there,
         std::uint64_t back) {
  offset.add(now, now + there + ahead, now + there + back);
}

TEST_CASE("without answers two clocks are taken for one", "[clock]") {
  CHECK(ClockOffset().to_remote(kSecond) == 0);
}

TEST_CASE("the shortest round trip of several tells the other clock best", "[clock]") {
  for (const std::uint64_t ahead : {5000 * kSecond, std::uint64_t{0} - 5000 * kSecond}) {
    ClockOffset offset;
    std::uint64_t now = 6000 * kSecond;
    ask(offset, now, ahead, 9 * kMs, 1 * kMs);
    CHECK(offset.to_remote(now) == ahead + 4 * kMs);  // half of the asymmetry
    ask(offset, now += 10 * kMs, ahead, kMs / 10, kMs / 10);
    ask(offset, now += 10 * kMs, ahead, 1 * kMs, 30 * kMs);
    CHECK(offset.samples() == 3);
    CHECK(offset.to_remote(now + kMs) == ahead);
  }
}

TEST_CASE("clocks that drift apart are followed", "[clock]") {
  ClockOffset offset;
  std::uint64_t ahead = 7 * kSecond;
  std::uint64_t worst = 0;
  for (std::uint64_t now = kSecond; now < 600 * kSecond; now += kSecond) {
    // 40 parts per million, and a lucky round trip now and then.
    ahead += 40'000;
    const std::uint64_t way = now % (7 * kSecond) == 0 ? kMs / 20 : kMs / 2;
    ask(offset, now, ahead, way, way + kMs / 10);
    const auto wrong = static_cast<std::int64_t>(offset.to_remote(now + kMs) - ahead);
    worst = std::max(worst, static_cast<std::uint64_t>(std::abs(wrong)));
  }
  CHECK(worst < kMs);
}

TEST_CASE("an answer from before the question, or from the future, does no harm", "[clock]") {
  ClockOffset offset;
  offset.add(kSecond, 2 * kSecond, kSecond - 5);
  CHECK(offset.to_remote(0) == kSecond);
}

TEST_CASE("this process has a clock, and it has a name", "[clock]") {
  const std::uint64_t now = monotonic_ns();
  CHECK(monotonic_ns() >= now);
  CHECK(own_clock().size() > 30);
  CHECK(own_clock() == own_clock());
}

}  // namespace
}  // namespace hvdrun
