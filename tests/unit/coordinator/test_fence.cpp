#include "common/base/limits.h"
#include "coordinator/fence.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("the last rank releases the fence with rank 0's blob", "[fence]") {
  Fence fence(4);
  Errc fault{};
  CHECK_FALSE(fence.enter({0, {2, 3}, ""}, fault));
  CHECK_FALSE(fence.enter({0, {0}, "id"}, fault));
  CHECK(fence.is_inside(0));
  CHECK_FALSE(fence.is_inside(1));
  const auto release = fence.enter({0, {1}, ""}, fault);
  CHECK(fault == Errc::ok);
  REQUIRE(release);
  CHECK(release->fence == 0);
  CHECK(release->blob == "id");

  // The next one begins empty, without the old blob.
  CHECK(fence.number() == 1);
  const auto next = fence.enter({1, {0, 1, 2, 3}, ""}, fault);
  REQUIRE(next);
  CHECK(next->blob.empty());
}

TEST_CASE("a rank that gave up may come again", "[fence]") {
  Fence fence(3);
  Errc fault{};
  fence.enter({0, {0, 1}, "old"}, fault);
  fence.withdraw(0);
  fence.withdraw(2);  // was not inside
  CHECK(fence.count() == 1);
  CHECK_FALSE(fence.enter({0, {2}, ""}, fault));
  CHECK(fault == Errc::ok);
  const auto release = fence.enter({0, {0}, "new"}, fault);
  REQUIRE(release);
  CHECK(release->blob == "new");
  fence.enter({1, {0, 1}, "x"}, fault);
  fence.withdraw_all();
  CHECK(fence.count() == 0);
  CHECK(fence.number() == 1);
  REQUIRE(fence.enter({1, {0, 1, 2}, ""}, fault));
}

TEST_CASE("wrong entries are faults", "[fence]") {
  Fence fence(2);
  Errc fault{};
  fence.enter({0, {1}, ""}, fault);
  const auto [message, expected] = GENERATE(table<FenceEnter, Errc>({
      {{1, {0}, ""}, Errc::wrong_epoch},
      {{0, {1}, ""}, Errc::malformed},
      {{0, {2}, ""}, Errc::malformed},
      {{0, {}, "blob"}, Errc::malformed},
      {{0, {0}, std::string(limits::kMaxFenceBlob + 1, 'x')}, Errc::malformed},
  }));
  CHECK_FALSE(fence.enter(message, fault));
  CHECK(fault == expected);
}

TEST_CASE("a fence of some slots waits for these, and its first has the blob", "[fence]") {
  Fence fence(4, {3, 1});
  Errc fault{};
  CHECK(fence.missing() == std::vector<std::uint32_t>{1, 3});
  CHECK_FALSE(fence.enter({0, {0}, ""}, fault));
  CHECK(fault == Errc::malformed);  // no member
  CHECK_FALSE(fence.enter({0, {1}, "blob"}, fault));
  CHECK(fault == Errc::malformed);  // not rank 0
  CHECK_FALSE(fence.enter({0, {3}, "old"}, fault));
  fence.withdraw(3);
  CHECK_FALSE(fence.enter({0, {1}, ""}, fault));
  CHECK(fault == Errc::ok);
  CHECK(fence.waiting() == std::vector<std::uint32_t>{1});
  const auto release = fence.enter({0, {3}, "new"}, fault);
  REQUIRE(release);
  CHECK(release->blob == "new");
  // The next one is of the same.
  CHECK(fence.missing() == std::vector<std::uint32_t>{1, 3});
  CHECK(fence.enter({1, {1, 3}, ""}, fault));
}

}  // namespace
}  // namespace hvdrun
