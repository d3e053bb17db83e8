#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/hvd/torch/bucket_memory.h"
#include "worker/hvd/torch/bucket_plan.h"

namespace hvdrun {
namespace {

using hvd::DataType;

constexpr auto kFloat = DataType::float32;
constexpr auto kDouble = DataType::float64;

TEST_CASE("the last parameter comes first, and gradients begin on cache lines", "[plan]") {
  const auto buckets = plan_buckets({{kFloat, 100}, {kFloat, 1}, {kFloat, 16}}, 1 << 20);
  REQUIRE(buckets.size() == 1);
  const auto& slots = buckets[0].slots;
  REQUIRE(slots.size() == 3);
  CHECK(slots[0].parameter == 2);
  CHECK(slots[0].offset == 0);
  CHECK(slots[1].parameter == 1);
  CHECK(slots[1].offset == 16);
  CHECK(slots[2].parameter == 0);
  CHECK(slots[2].offset == 32);
  CHECK(buckets[0].elements == 144);
}

TEST_CASE("a bucket is closed before it grows over its size", "[plan]") {
  const std::vector<ParameterSize> four(4, {kFloat, 16});  // 64 bytes each
  CHECK(plan_buckets(four, 256).size() == 1);
  CHECK(plan_buckets(four, 255).size() == 2);
  CHECK(plan_buckets(four, 128).size() == 2);
  CHECK(plan_buckets(four, 64).size() == 4);
  CHECK(plan_buckets(four, 0).size() == 4);
  CHECK(plan_buckets({{kFloat, 16}, {kFloat, 1000}, {kFloat, 16}}, 128).size() == 3);
  CHECK(plan_buckets({}, 128).empty());
}

TEST_CASE("buckets are small where backward begins and where it ends", "[plan]") {
  constexpr std::size_t kMiB = std::size_t{1} << 20;
  const std::vector<ParameterSize> parameters(256, {kFloat, 32768});  // 128 KiB each
  const auto bytes = [](const BucketLayout& bucket) { return bucket.elements * sizeof(float); };
  const auto buckets = plan_buckets(parameters, 4 * kMiB);
  std::size_t sum = 0;
  for (const BucketLayout& bucket : buckets) {
    CHECK(bytes(bucket) <= 4 * kMiB);
    sum += bytes(bucket);
  }
  CHECK(sum == 32 * kMiB);
  CHECK(bytes(buckets.front()) == kSmallestBucket);
  CHECK(bytes(buckets.back()) <= kSmallestBucket);
  CHECK(bytes(buckets[buckets.size() / 2]) == 4 * kMiB);
  CHECK(buckets.size() < 18);
  // It goes by the place in backward's order, not by the parameter.
  std::vector<std::size_t> order(parameters.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = (i + 100) % order.size();
  const auto turned = plan_buckets(parameters, 4 * kMiB, order);
  CHECK(bytes(turned.front()) == kSmallestBucket);
  CHECK(turned.front().slots[0].parameter == 100);
  CHECK(turned.back().slots.back().parameter == 99);
}

TEST_CASE("every dtype has buckets of its own, ordered by the moment they are complete", "[plan]") {
  // Backward goes 4, 3, 2, 1, 0: the doubles (3, 1) are complete before the floats (4, 2, 0).
  const auto buckets =
      plan_buckets({{kFloat, 1}, {kDouble, 9}, {kFloat, 1}, {kDouble, 1}, {kFloat, 1}}, 1 << 20);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].type == kDouble);
  CHECK(buckets[0].elements == 8 + 16);
  CHECK(buckets[1].type == kFloat);
  CHECK(buckets[1].slots.size() == 3);
}

TEST_CASE("bucket memory is aligned and zero", "[plan]") {
  const auto memory = allocate_bucket_memory(100);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.get()) % kGradientAlignment == 0);
  const auto* bytes = static_cast<const char*>(memory.get());
  for (int i = 0; i < 100; ++i) CHECK(bytes[i] == 0);
}

}  // namespace
}  // namespace hvdrun
