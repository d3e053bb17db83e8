#include "worker/labs/data/synthetic/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <vector>

#include "worker/labs/data/files/split_mix.h"

namespace hvdrun {
namespace {

// Positions are in 1/256 of a pixel, factors in 1/1024.
constexpr std::int64_t kPixel = 256;
constexpr std::int64_t kOne = 1024;
constexpr auto kSide = static_cast<std::int64_t>(kMnistSide);

struct Point {
  std::int64_t x;
  std::int64_t y;
};

// Each digit as one or two lines through points of a 100 x 100 grid.
using Line = std::vector<Point>;
using Glyph = std::vector<Line>;

const std::array<Glyph, 10>& glyphs() {
  static const std::array<Glyph, 10> all = {{
      {{{50, 5},
        {72, 12},
        {84, 34},
        {84, 66},
        {72, 88},
        {50, 95},
        {28, 88},
        {16, 66},
        {16, 34},
        {28, 12},
        {50, 5}}},
      {{{28, 26}, {54, 5}, {54, 95}}},
      {{{18, 26}, {30, 10}, {50, 5}, {70, 10}, {80, 27}, {72, 47}, {18, 95}, {84, 95}}},
      {{{18, 12}, {48, 5}, {74, 14}, {76, 32}, {62, 45}, {42, 48}},
       {{62, 45}, {80, 62}, {78, 82}, {55, 95}, {18, 87}}},
      {{{66, 95}, {66, 5}, {14, 66}, {88, 66}}},
      {{{80, 5}, {28, 5}, {23, 45}, {50, 39}, {74, 49}, {80, 68}, {70, 87}, {45, 95}, {18, 86}}},
      {{{72, 7},
        {44, 20},
        {26, 45},
        {20, 70},
        {30, 89},
        {52, 95},
        {74, 86},
        {80, 69},
        {69, 53},
        {48, 50},
        {27, 61}}},
      {{{15, 5}, {84, 5}, {44, 95}}},
      {{{50, 47},
        {28, 36},
        {27, 16},
        {50, 5},
        {73, 16},
        {72, 36},
        {50, 47},
        {24, 62},
        {23, 84},
        {50, 95},
        {77, 84},
        {76, 62},
        {50, 47}}},
      {{{28, 93},
        {56, 80},
        {74, 55},
        {80, 30},
        {70, 11},
        {48, 5},
        {26, 14},
        {20, 31},
        {31, 47},
        {52, 50},
        {73, 39}}},
  }};
  return all;
}

// floor(sqrt(value)), digit by digit.
std::int64_t integer_sqrt(std::int64_t value) {
  std::int64_t root = 0;
  for (std::int64_t bit = std::int64_t{1} << 30; bit != 0; bit >>= 2) {
    if (value >= root + bit) {
      value -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  return root;
}

class Canvas {
 public:
  // A stroke with round ends; its edge falls off over one pixel. Strokes do not add up.
  void stroke(Point from, Point to, std::int64_t radius, std::int64_t ink) {
    const std::int64_t reach = radius + kPixel;
    const std::int64_t left = std::max<std::int64_t>(0, (std::min(from.x, to.x) - reach) / kPixel);
    const std::int64_t top = std::max<std::int64_t>(0, (std::min(from.y, to.y) - reach) / kPixel);
    const std::int64_t right = std::min(kSide - 1, (std::max(from.x, to.x) + reach) / kPixel);
    const std::int64_t bottom = std::min(kSide - 1, (std::max(from.y, to.y) + reach) / kPixel);
    for (std::int64_t y = top; y <= bottom; ++y) {
      for (std::int64_t x = left; x <= right; ++x) {
        const Point centre{x * kPixel + kPixel / 2, y * kPixel + kPixel / 2};
        const std::int64_t distance = integer_sqrt(distance_squared(centre, from, to));
        const std::int64_t cover = std::clamp<std::int64_t>(reach - distance, 0, kPixel);
        std::int64_t& pixel = pixels_[static_cast<std::size_t>(y * kSide + x)];
        pixel = std::max(pixel, cover * ink / kPixel);
      }
    }
  }

  void add_noise(SplitMix& random, std::int64_t amplitude) {
    // The sum of two is bell-shaped enough.
    for (auto& pixel : pixels_) {
      pixel += random.between(-amplitude, amplitude) + random.between(-amplitude, amplitude);
    }
  }

  void append_to(std::vector<std::uint8_t>& bytes) const {
    for (const std::int64_t pixel : pixels_) {
      bytes.push_back(static_cast<std::uint8_t>(std::clamp<std::int64_t>(pixel, 0, 255)));
    }
  }

 private:
  static std::int64_t distance_squared(Point point, Point from, Point to) {
    const std::int64_t dx = to.x - from.x;
    const std::int64_t dy = to.y - from.y;
    const std::int64_t length = dx * dx + dy * dy;
    std::int64_t along = 0;
    if (length != 0) {
      const std::int64_t projection = (point.x - from.x) * dx + (point.y - from.y) * dy;
      along = std::clamp<std::int64_t>(projection * kOne / length, 0, kOne);
    }
    const std::int64_t x = point.x - from.x - dx * along / kOne;
    const std::int64_t y = point.y - from.y - dy * along / kOne;
    return x * x + y * y;
  }

  std::array<std::int64_t, kMnistSide * kMnistSide> pixels_{};
};

// A random affine map from the 100 x 100 grid to the canvas.
class Pose {
 public:
  // No call here or below takes two random numbers as arguments: their order would be the
  // compiler's choice.
  explicit Pose(SplitMix& random)
      : width_(random.between(125, 200)),
        height_(random.between(150, 215)),
        shear_(random.between(-270, 270)),
        sine_(random.between(-300, 300)),
        cosine_(integer_sqrt(kOne * kOne - sine_ * sine_)),
        x_(kSide * kPixel / 2 + random.between(-780, 780)),
        y_(kSide * kPixel / 2 + random.between(-720, 720)) {}

  Point apply(Point grid) const {
    // Width and height are in pixels times ten, so a grid step is width / 1000 of a pixel.
    const std::int64_t v = (grid.y - 50) * height_ * kPixel / 1000;
    const std::int64_t u = (grid.x - 50) * width_ * kPixel / 1000 + v * shear_ / kOne;
    return {x_ + (u * cosine_ - v * sine_) / kOne, y_ + (u * sine_ + v * cosine_) / kOne};
  }

 private:
  std::int64_t width_;
  std::int64_t height_;
  std::int64_t shear_;
  std::int64_t sine_;
  std::int64_t cosine_;
  std::int64_t x_;
  std::int64_t y_;
};

void draw(Canvas& canvas, const Glyph& glyph, SplitMix& random) {
  const Pose pose(random);
  const std::int64_t radius = random.between(110, 260);
  const std::int64_t ink = random.between(200, 255);
  for (const Line& line : glyph) {
    std::vector<Point> points;
    for (const Point& point : line) {
      points.push_back(
          pose.apply({point.x + random.between(-4, 4), point.y + random.between(-4, 4)}));
    }
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
      canvas.stroke(points[i], points[i + 1], radius, ink);
    }
  }
}

void draw_stray_strokes(Canvas& canvas, SplitMix& random) {
  for (std::int64_t left = random.between(0, 2); left > 0; --left) {
    const Point from{random.between(0, kSide * kPixel), random.between(0, kSide * kPixel)};
    const Point to{from.x + random.between(-1100, 1100), from.y + random.between(-1100, 1100)};
    const std::int64_t radius = random.between(60, 180);
    const std::int64_t ink = random.between(90, 230);
    canvas.stroke(from, to, radius, ink);
  }
}

}  // namespace

LabelledImages synthetic_digits(Split split, std::size_t count, std::uint64_t seed) {
  LabelledImages data;
  data.images.count = count;
  data.images.rows = kMnistSide;
  data.images.columns = kMnistSide;
  data.images.pixels.reserve(count * kMnistSide * kMnistSide);
  data.labels.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    SplitMix random(seed, 2 * std::uint64_t{i} + (split == Split::test ? 1 : 0));
    const auto digit = random.below(10);
    Canvas canvas;
    draw(canvas, glyphs()[digit], random);
    draw_stray_strokes(canvas, random);
    canvas.add_noise(random, 16);
    canvas.append_to(data.images.pixels);
    data.labels.push_back(static_cast<std::uint8_t>(digit));
  }
  return data;
}

}  // namespace hvdrun
