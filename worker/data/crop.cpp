#include "worker/data/crop.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace hvdrun {
namespace {

constexpr int kCropTries = 10;
constexpr float kGrey[3] = {0.299F, 0.587F, 0.114F};

// From `low` to below `high`.
double uniform(SplitMix& random, double low, double high) {
  return low + (high - low) * (static_cast<double>(random.next() >> 11) * 0x1p-53);
}

// Where the pixels of a line of the result lie between two of the image.
struct Tap {
  std::size_t first;  // offsets of the two, in elements
  std::size_t second;
  float of_second;
};

std::vector<Tap> taps(double begin, double length, std::size_t side, std::size_t limit,
                      std::size_t stride) {
  std::vector<Tap> result(side);
  const double step = length / static_cast<double>(side);
  for (std::size_t i = 0; i < side; ++i) {
    const double at = std::clamp(begin + (static_cast<double>(i) + 0.5) * step - 0.5, 0.0,
                                 static_cast<double>(limit - 1));
    const auto first = static_cast<std::size_t>(at);
    const std::size_t second = std::min(first + 1, limit - 1);
    result[i] = {first * stride, second * stride, static_cast<float>(at - std::floor(at))};
  }
  return result;
}

// Pixels from 0 to 255 in three planes.
void change_colours(float* planes, std::size_t area, const ColourChange& change) {
  float* const red = planes;
  float* const green = planes + area;
  float* const blue = planes + 2 * area;
  double sum = 0;
  for (std::size_t i = 0; i < area; ++i)
    sum += static_cast<double>(kGrey[0] * red[i] + kGrey[1] * green[i] + kGrey[2] * blue[i]);
  const float scale = change.brightness * change.contrast;
  // Contrast turns around the image's mean grey.
  const float offset = static_cast<float>(sum / static_cast<double>(area)) * change.brightness *
                       (1 - change.contrast);
  const auto limited = [](float value) { return std::min(std::max(value, 0.0F), 255.0F); };
  for (std::size_t i = 0; i < area; ++i) {
    const float r = red[i] * scale + offset;
    const float g = green[i] * scale + offset;
    const float b = blue[i] * scale + offset;
    const float grey = (kGrey[0] * r + kGrey[1] * g + kGrey[2] * b) * (1 - change.saturation);
    red[i] = limited(grey + r * change.saturation);
    green[i] = limited(grey + g * change.saturation);
    blue[i] = limited(grey + b * change.saturation);
  }
}

}  // namespace

Crop middle_crop(const ImageSize& size) {
  const double side = 0.875 * static_cast<double>(std::min(size.rows, size.columns));
  return {(static_cast<double>(size.rows) - side) / 2,
          (static_cast<double>(size.columns) - side) / 2, side, side};
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
  const std::vector<Tap> rows = taps(crop.top, crop.rows, side, image.rows, image.columns * 3);
  const std::vector<Tap> columns = taps(crop.left, crop.columns, side, image.columns, 3);
  const bool recolours = options.colours.brightness != 1 || options.colours.contrast != 1 ||
                         options.colours.saturation != 1;
  std::array<float, 3> factor{};
  std::array<float, 3> offset{};
  for (std::size_t c = 0; c < 3; ++c) {
    factor.at(c) = 1 / (255 * options.scaling.deviation.at(c));
    offset.at(c) = -options.scaling.mean.at(c) / options.scaling.deviation.at(c);
  }
  // Two lines of the image become one of the result, pixel by pixel.
  std::vector<float> line(image.columns * 3);
  const std::size_t first_column = columns.front().first;
  const std::size_t last_column = columns.back().second + 3;
  for (std::size_t y = 0; y < side; ++y) {
    const std::uint8_t* const upper = image.pixels.data() + rows[y].first;
    const std::uint8_t* const lower = image.pixels.data() + rows[y].second;
    const float share = rows[y].of_second;
    for (std::size_t i = first_column; i < last_column; ++i) {
      const auto above = static_cast<float>(upper[i]);
      line[i] = above + share * (static_cast<float>(lower[i]) - above);
    }
    float* const target = output + y * side;
    for (std::size_t x = 0; x < side; ++x) {
      const Tap& tap = columns[options.mirror ? side - 1 - x : x];
      for (std::size_t c = 0; c < 3; ++c) {
        const float left = line[tap.first + c];
        target[c * area + x] = left + tap.of_second * (line[tap.second + c] - left);
      }
    }
  }
  if (recolours) change_colours(output, area, options.colours);
  for (std::size_t c = 0; c < 3; ++c) {
    float* const plane = output + c * area;
    const float times = factor.at(c);
    const float plus = offset.at(c);
    for (std::size_t i = 0; i < area; ++i) plane[i] = plane[i] * times + plus;
  }
}

}  // namespace hvdrun
