#include "worker/labs/data/images/crop.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace hvdrun {
namespace {

constexpr int kCropTries = 10;
constexpr float kGrey[3] = {0.299F, 0.587F, 0.114F};

// From `low` to below `high`.
double uniform(SplitMix& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random.next() >> 11) * 0x1p-53);
}

// Where a line or a column of the result lies between two of the image.
struct Tap {
  std::size_t first;
  std::size_t second;
  float of_second;
};

std::vector<Tap> taps(double begin, double length, std::size_t side, std::size_t limit) {
  std::vector<Tap> result(side);
  const double step = length / static_cast<double>(side);
  for (std::size_t i = 0; i < side; ++i) {
    const double at = std::clamp(begin + (static_cast<double>(i) + 0.5) * step - 0.5, 0.0,
                                 static_cast<double>(limit - 1));
    const auto first = static_cast<std::size_t>(at);
    const std::size_t second = std::min(first + 1, limit - 1);
    result[i] = {first, second, static_cast<float>(at - std::floor(at))};
  }
  return result;
}

// Red, green, blue and one that is not used: an instruction works on a pixel.
typedef float Four __attribute__((vector_size(16)));
constexpr std::size_t kLanes = 4;

Four load(const float* from) {
  Four result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

void store(float* to, Four value) { std::memcpy(to, &value, sizeof value); }

// The lines of an image at the width of the result, each made once: the result's lines use one
// after the other.
class NarrowLines {
 public:
  NarrowLines(const Image& image, std::vector<Tap> columns)
      : image_(image),
        columns_(std::move(columns)),
        first_(3 * std::min(columns_.front().first, columns_.back().first)),
        last_(3 * std::max(columns_.front().second, columns_.back().second) + 3),
        wide_(last_ + 1) {
    for (Line& line : lines_)
      line.pixels.resize((columns_.size() + kLanes - 1) / kLanes * kLanes * kLanes);
  }

  // Four floats a pixel, up to a multiple of four pixels. Valid until the line after the next.
  const float* line(std::size_t row) {
    Line& line = lines_.at(row % 2);
    if (line.row == row) return line.pixels.data();
    line.row = row;
    const std::uint8_t* const bytes = image_.pixels.data() + row * image_.columns * 3;
    for (std::size_t i = first_; i < last_; ++i) wide_[i] = static_cast<float>(bytes[i]);
    float* to = line.pixels.data();
    for (const Tap& tap : columns_) {
      const Four left = load(wide_.data() + 3 * tap.first);
      store(to, left + tap.of_second * (load(wide_.data() + 3 * tap.second) - left));
      to += kLanes;
    }
    return line.pixels.data();
  }

 private:
  struct Line {
    std::size_t row = ~std::size_t{0};
    std::vector<float> pixels;
  };
  const Image& image_;
  const std::vector<Tap> columns_;
  const std::size_t first_;  // of the image's columns times three that are used
  const std::size_t last_;
  std::vector<float> wide_;  // a line of the image, and one float for the last pixel's fourth
  std::array<Line, 2> lines_;
};

// Four pixels to four reds, four greens and four blues.
std::array<Four, 3> to_planes(const std::array<Four, kLanes>& pixels) {
  const Four low = __builtin_shufflevector(pixels[0], pixels[1], 0, 4, 1, 5);
  const Four high = __builtin_shufflevector(pixels[2], pixels[3], 0, 4, 1, 5);
  return {__builtin_shufflevector(low, high, 0, 1, 4, 5),
          __builtin_shufflevector(low, high, 2, 3, 6, 7),
          __builtin_shufflevector(__builtin_shufflevector(pixels[0], pixels[1], 2, 6, 2, 6),
                                  __builtin_shufflevector(pixels[2], pixels[3], 2, 6, 2, 6), 0, 1,
                                  4, 5)};
}

// value * times + plus, of each channel.
struct Linear {
  std::array<float, 3> times{1, 1, 1};
  std::array<float, 3> plus{0, 0, 0};
};

Linear linear(const PixelScaling& scaling) {
  Linear result;
  for (std::size_t c = 0; c < 3; ++c) {
    result.times.at(c) = 1 / (255 * scaling.deviation.at(c));
    result.plus.at(c) = -scaling.mean.at(c) / scaling.deviation.at(c);
  }
  return result;
}

// Written so that it is two instructions for all floats of a vector.
float within_byte(float value) {
  const float at_least = value > 0.0F ? value : 0.0F;
  return at_least < 255.0F ? at_least : 255.0F;
}

// Pixels from 0 to 255 in three planes, whose mean grey is given.
void change_colours(float* planes, std::size_t area, float mean, const ColourChange& change,
                    const Linear& then) {
  float* __restrict const red = planes;
  float* __restrict const green = planes + area;
  float* __restrict const blue = planes + 2 * area;
  const float scale = change.brightness * change.contrast;
  // Contrast turns around the image's mean grey.
  const float offset = mean * change.brightness * (1 - change.contrast);
  const float saturation = change.saturation;
  for (std::size_t i = 0; i < area; ++i) {
    const float r = red[i] * scale + offset;
    const float g = green[i] * scale + offset;
    const float b = blue[i] * scale + offset;
    const float grey = (kGrey[0] * r + kGrey[1] * g + kGrey[2] * b) * (1 - saturation);
    red[i] = within_byte(grey + r * saturation) * then.times[0] + then.plus[0];
    green[i] = within_byte(grey + g * saturation) * then.times[1] + then.plus[1];
    blue[i] = within_byte(grey + b * saturation) * then.times[2] + then.plus[2];
  }
}

}  // namespace

Crop middle_crop(const ImageSize& size) {
  const double side = 0.875 * static_cast<double>(std::min(size.rows, size.columns));
  return {(static_cast<double>(size.rows) - side) / 2,
          (static_cast<double>(size.columns) - side) / 2, side, side};
}

Window window_of(const Crop& crop) {
  const double top = std::floor(std::max(0.0, crop.top));
  const double left = std::floor(std::max(0.0, crop.left));
  return {static_cast<std::size_t>(top), static_cast<std::size_t>(left),
          static_cast<std::size_t>(std::ceil(crop.top + crop.rows - top)),
          static_cast<std::size_t>(std::ceil(crop.left + crop.columns - left))};
}

Crop random_crop(const ImageSize& size, SplitMix& random) {
  const auto rows = static_cast<double>(size.rows);
  const auto columns = static_cast<double>(size.columns);
  for (int i = 0; i < kCropTries; ++i) {
    const double area = rows * columns * uniform(random, 0.08, 1);
    const double ratio = std::exp(uniform(random, std::log(0.75), std::log(4.0 / 3)));
    const double width = std::sqrt(area * ratio);
    const double height = std::sqrt(area / ratio);
    if (width > columns || height > rows) continue;
    const double top = uniform(random, 0, rows - height);
    return {top, uniform(random, 0, columns - width), height, width};
  }
  return middle_crop(size);
}

ColourChange random_colours(SplitMix& random) {
  const auto factor = [&] { return static_cast<float>(uniform(random, 0.6, 1.4)); };
  ColourChange change;
  change.brightness = factor();
  change.contrast = factor();
  change.saturation = factor();
  return change;
}

void write_crop(const Image& image, const Crop& crop, const CropOptions& options, float* output) {
  const std::size_t side = options.side;
  const std::size_t area = side * side;
  const std::vector<Tap> rows = taps(crop.top, crop.rows, side, image.rows);
  std::vector<Tap> columns = taps(crop.left, crop.columns, side, image.columns);
  if (options.mirror) std::reverse(columns.begin(), columns.end());
  NarrowLines lines(image, std::move(columns));
  const bool recolours = options.colours.brightness != 1 || options.colours.contrast != 1 ||
                         options.colours.saturation != 1;
  const Linear scaling = linear(options.scaling);
  const Linear now = recolours ? Linear{} : scaling;
  std::array<double, 3> sums{};
  for (std::size_t y = 0; y < side; ++y) {
    const float* const upper = lines.line(rows[y].first);
    const float* const lower = lines.line(rows[y].second);
    const float share = rows[y].of_second;
    std::array<Four, 3> line_sums{};
    for (std::size_t x = 0; x < side; x += kLanes) {
      std::array<Four, kLanes> pixels;
      for (std::size_t i = 0; i < kLanes; ++i) {
        const Four above = load(upper + (x + i) * kLanes);
        pixels[i] = above + share * (load(lower + (x + i) * kLanes) - above);
      }
      const std::array<Four, 3> planes = to_planes(pixels);
      for (std::size_t c = 0; c < 3; ++c) {
        const Four values = planes[c] * now.times[c] + now.plus[c];
        line_sums[c] += values;
        float* const to = output + c * area + y * side + x;
        if (x + kLanes <= side) {
          store(to, values);
        } else {
          for (std::size_t i = 0; i < side - x; ++i) to[i] = values[i];
        }
      }
    }
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t i = 0; i < kLanes; ++i) sums[c] += static_cast<double>(line_sums[c][i]);
  }
  if (!recolours) return;
  double grey = 0;
  for (std::size_t c = 0; c < 3; ++c) grey += static_cast<double>(kGrey[c]) * sums[c];
  change_colours(output, area, static_cast<float>(grey / static_cast<double>(area)),
                 options.colours, scaling);
}

}  // namespace hvdrun
