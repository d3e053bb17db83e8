#include <algorithm>

#include "common/horovod/held_gets.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

std::vector<HeldGets::Waiter> sorted(std::vector<HeldGets::Waiter> waiters) {
  std::sort(waiters.begin(), waiters.end());
  return waiters;
}

TEST_CASE("gets of peers' addresses are held, and of nothing else", "[horovod]") {
  HeldGets gets(3);
  CHECK(gets.hold(1, "global", "0"));
  CHECK_FALSE(gets.hold(1, "global", "1"));  // who waits asks one thing
  for (const char* key : {"rank_0", "1a", "-1", "a", "+1"})
    CHECK_FALSE(gets.hold(2, "global", key));
  CHECK(gets.hold(2, "global", "0"));
  CHECK(gets.hold(3, "global", "12"));
  CHECK_FALSE(gets.hold(4, "global", "0"));  // so many
  CHECK(gets.take("global", "1").empty());
  CHECK(gets.take("globa", "l/0").empty());
  CHECK(sorted(gets.take("global", "0")) == std::vector<HeldGets::Waiter>{1, 2});
  CHECK(gets.take("global", "0").empty());
  CHECK_FALSE(gets.forget(1));
  CHECK(gets.forget(3));
  CHECK_FALSE(gets.forget(3));
  CHECK(gets.take("global", "12").empty());
  for (const HeldGets::Waiter waiter : {5, 6, 7}) CHECK(gets.hold(waiter, "s", "0"));
  CHECK(gets.forget(6));
  CHECK(sorted(gets.take("s", "0")) == std::vector<HeldGets::Waiter>{5, 7});
}

}  // namespace
}  // namespace hvdrun
