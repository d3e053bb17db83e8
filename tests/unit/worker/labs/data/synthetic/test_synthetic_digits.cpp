#include <array>
#include <zlib.h>

#include "tests/catch.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"

namespace hvdrun {
namespace {

unsigned long checksum(const std::vector<std::uint8_t>& bytes) {
  return crc32(0, bytes.data(), static_cast<unsigned>(bytes.size()));
}

TEST_CASE("splitmix64 gives the published numbers", "[random]") {
  SplitMix random(1234567);
  CHECK(random.next() == 6457827717110365317U);
  CHECK(random.next() == 3203168211198807973U);
  CHECK(random.next() == 9817491932198370423U);
  for (int i = 0; i < 1000; ++i) {
    const auto value = random.between(-3, 5);
    CHECK(value >= -3);
    CHECK(value <= 5);
  }
  CHECK(random.below(1) == 0);
}

// These numbers change only when the set itself is changed on purpose: results measured on it then
// change with it.
TEST_CASE("the same seed gives the same bytes on every machine", "[digits]") {
  const auto train = synthetic_digits(Split::train, 200, 1);
  const auto test = synthetic_digits(Split::test, 200, 1);
  CHECK(checksum(train.images.pixels) == 0x75ce886a);
  CHECK(checksum(train.labels) == 0xf9077bd8);
  CHECK(checksum(test.images.pixels) == 0x2dd3b23f);
}

TEST_CASE("a longer set begins with the shorter one, another seed is another set", "[digits]") {
  const auto short_set = synthetic_digits(Split::train, 10, 3);
  auto long_set = synthetic_digits(Split::train, 20, 3);
  CHECK(synthetic_digits(Split::train, 10, 4).images.pixels != short_set.images.pixels);
  CHECK(synthetic_digits(Split::test, 10, 3).images.pixels != short_set.images.pixels);
  long_set.images.pixels.resize(short_set.images.pixels.size());
  CHECK(long_set.images.pixels == short_set.images.pixels);
}

TEST_CASE("every digit appears about equally often and has ink and background", "[digits]") {
  const auto data = synthetic_digits(Split::train, 2000, 1);
  std::array<int, 10> count{};
  for (std::size_t i = 0; i < data.labels.size(); ++i) {
    ++count.at(data.labels[i]);
    int dark = 0;
    int bright = 0;
    for (std::size_t p = 0; p < 784; ++p) {
      const int pixel = data.images.pixels[i * 784 + p];
      dark += pixel < 50 ? 1 : 0;
      bright += pixel > 130 ? 1 : 0;
    }
    CHECK(dark > 300);
    CHECK(bright > 20);
  }
  for (const int number : count) {
    CHECK(number > 150);
    CHECK(number < 250);
  }
}

}  // namespace
}  // namespace hvdrun
