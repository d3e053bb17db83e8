#include "common/base/lease.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a lease ends a heartbeat after its length, unless something is heard", "[lease]") {
  const TimePoint start{1000s};
  Lease lease(15s, start);
  CHECK_FALSE(lease.is_over(start + 15'999ms));
  CHECK(lease.is_over(start + 16s));
  lease.heard(start + 10s);
  CHECK(lease.end() == start + 26s);
  CHECK(lease.silence_at(start + 12s) == 2s);
}

TEST_CASE("a silence is named once, and its end told once", "[lease]") {
  const TimePoint start{1000s};
  Lease lease(15s, start);
  CHECK_FALSE(lease.names_silence(start + 2'999ms));
  CHECK(lease.heard(start + 2'999ms) == std::nullopt);
  CHECK(lease.names_silence(start + 5'999ms));
  CHECK_FALSE(lease.names_silence(start + 7s));
  CHECK(lease.heard(start + 8'999ms) == 6s);
  CHECK(lease.heard(start + 9s) == std::nullopt);
  CHECK_FALSE(lease.names_silence(start + 11s));
  CHECK(lease.names_silence(start + 12s));
}

TEST_CASE("heartbeats come at least eight times in a lease, and not more than 20 times a second",
          "[lease]") {
  CHECK(heartbeat_of(15s) == 1s);
  CHECK(heartbeat_of(60s) == 1s);
  CHECK(heartbeat_of(2s) == 250ms);
  CHECK(heartbeat_of(0s) == 50ms);
}

}  // namespace
}  // namespace hvdrun
