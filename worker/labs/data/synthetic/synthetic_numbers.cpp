#include "worker/labs/data/synthetic/synthetic_numbers.h"

#include <algorithm>
#include <array>

#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/images/svhn_files.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"

namespace hvdrun {
namespace {

constexpr auto kMargin = static_cast<std::int64_t>((kSvhnSide - kMnistSide) / 2);
// The distance of a neighbour from the digit in the middle.
constexpr std::int64_t kLeastShift = 17;
constexpr std::int64_t kMostShift = 22;

using Colour = std::array<std::int64_t, kSvhnColours>;

Colour random_colour(SplitMix& random) {
  Colour colour{};
  for (auto& part : colour) part = random.between(10, 245);
  return colour;
}

std::int64_t colour_distance(const Colour& a, const Colour& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < kSvhnColours; ++i) sum += std::max(a[i] - b[i], b[i] - a[i]);
  return sum;
}

// The ink of a digit whose left edge stands `shift` pixels right of the middle one's.
std::int64_t ink(const std::uint8_t* digit, std::int64_t x, std::int64_t y, std::int64_t shift) {
  const std::int64_t column = x - kMargin - shift;
  const std::int64_t row = y - kMargin;
  const auto side = static_cast<std::int64_t>(kMnistSide);
  if (column < 0 || column >= side || row < 0 || row >= side) return 0;
  return digit[row * side + column];
}

}  // namespace

ImageSet synthetic_numbers(Split split, std::size_t count, std::uint64_t seed) {
  // Neighbours are the digits before and after it, so one more on either side.
  const LabelledImages digits = synthetic_digits(split, count + 2, seed);
  ImageSet set{kSvhnColours, kSvhnSide, kSvhnSide, {}, {}};
  set.pixels.reserve(count * set.image_size());
  for (std::size_t i = 0; i < count; ++i) {
    // Not the streams of the digits.
    SplitMix random(~seed, 2 * std::uint64_t{i} + (split == Split::test ? 1 : 0));
    const std::uint8_t* const middle = digits.images.pixels.data() + i * digits.images.image_size();
    const std::uint8_t* const left = middle + digits.images.image_size();
    const std::uint8_t* const right = left + digits.images.image_size();
    const std::int64_t left_shift = -random.between(kLeastShift, kMostShift);
    const std::int64_t right_shift = random.between(kLeastShift, kMostShift);
    const Colour paper = random_colour(random);
    Colour paint = random_colour(random);
    while (colour_distance(paper, paint) < 210) paint = random_colour(random);
    const std::int64_t slope_x = random.between(-2, 2);
    const std::int64_t slope_y = random.between(-2, 2);
    for (std::size_t colour = 0; colour < kSvhnColours; ++colour) {
      for (std::int64_t y = 0; y < static_cast<std::int64_t>(kSvhnSide); ++y) {
        for (std::int64_t x = 0; x < static_cast<std::int64_t>(kSvhnSide); ++x) {
          const std::int64_t covered = std::max(
              {ink(middle, x, y, 0), ink(left, x, y, left_shift), ink(right, x, y, right_shift)});
          const std::int64_t light = slope_x * (x - 16) + slope_y * (y - 16);
          const std::int64_t value =
              (paper[colour] * (255 - covered) + paint[colour] * covered) / 255 + light;
          set.pixels.push_back(static_cast<std::uint8_t>(std::clamp<std::int64_t>(value, 0, 255)));
        }
      }
    }
    set.labels.push_back(digits.labels[i]);
  }
  return set;
}

}  // namespace hvdrun
