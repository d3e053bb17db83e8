#include "common/net/strangers.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Lines = std::vector<std::string>;

TEST_CASE("the first stranger of an address is told, the next are counted", "[strangers]") {
  const TimePoint t0{};
  Strangers strangers;
  CHECK(strangers.refused("10.0.0.7", "no key", t0) ==
        "refused a connection from 10.0.0.7: no key");
  CHECK(!strangers.next_deadline());
  for (int i = 0; i < 17; ++i) CHECK(!strangers.refused("10.0.0.7", "no key", t0 + 10ms));
  CHECK(strangers.next_deadline() == t0 + 1s);
  CHECK(strangers.take_counts(t0 + 999ms).empty());
  CHECK(strangers.take_counts(t0 + 1s) ==
        Lines{"17 more connections from 10.0.0.7 that did not belong to the job"});
  CHECK(strangers.take_counts(t0 + 1s).empty());
  // The next line comes after twice the time.
  CHECK(!strangers.refused("10.0.0.7", "no key", t0 + 2s));
  CHECK(strangers.next_deadline() == t0 + 3s);
  CHECK(strangers.take_counts(t0 + 3s) ==
        Lines{"1 more connection from 10.0.0.7 that did not belong to the job"});
  CHECK(strangers.refused("::1", "no key", t0 + 3s) == "refused a connection from ::1: no key");
}

TEST_CASE("a day of strangers from everywhere is some lines", "[strangers]") {
  TimePoint now{};
  Strangers strangers;
  std::size_t firsts = 0;
  std::size_t counts = 0;
  std::uint64_t counted = 0;
  for (int i = 0; i < 86'400; ++i, now += 1s) {
    firsts += strangers.refused("10.0.0." + std::to_string(i % 200), "", now).has_value() ? 1 : 0;
    for (const std::string& line : strangers.take_counts(now)) {
      ++counts;
      counted += std::stoul(line);
    }
  }
  // The sixteen that are told apart, and all others.
  CHECK(firsts == 17);
  CHECK(counts <= 17 * (10 + 144));
  CHECK(counted + firsts <= 86'400);
  CHECK(counted + firsts > 80'000);
}

}  // namespace
}  // namespace hvdrun
