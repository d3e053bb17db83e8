#include "worker/labs/data/synthetic/synthetic_patterns.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "worker/labs/data/files/example.h"
#include "worker/labs/data/files/records.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/image_source.h"

namespace hvdrun {
namespace {

constexpr int kJpegQuality = 85;

using PatternColour = std::array<double, 3>;

// From 0 to below 1.
double part(SplitMix& random) { return static_cast<double>(random.next() >> 11) * 0x1p-53; }

PatternColour any_colour(SplitMix& random) {
  PatternColour colour{};
  for (double& one : colour) one = 20 + 215 * part(random);
  return colour;
}

double apart(const PatternColour& a, const PatternColour& b) {
  double sum = 0;
  for (std::size_t i = 0; i < 3; ++i) sum += std::abs(a.at(i) - b.at(i));
  return sum;
}

double wave(double x) { return std::sin(2 * 3.14159265358979 * x); }
// -1 to 1, in straight lines.
double saw(double x) { return 4 * std::abs(x - std::floor(x) - 0.5) - 1; }

// The amount of the second colour: above 0 is much. x and y are in periods, from the middle.
// Mirrored, a pattern is still of its class, as photographs are.
double pattern_at(std::size_t kind, double x, double y) {
  switch (kind) {
    case 0:
      return wave(y);
    case 1:
      return wave(x);
    case 2:
      return wave((x + y) * 0.6) * wave((x - y) * 0.6);
    case 3:
      return wave(std::hypot(x, y) * 0.9 + std::atan2(y, x) / 3.14159265358979);
    case 4:
      return wave(x * 0.8) * wave(y * 0.8);
    case 5:
      return wave(std::hypot(x, y));
    case 6:
      return 0.35 - std::hypot(saw(x * 0.7) * 0.7, saw(y * 0.7) * 0.7);
    case 7:
      return wave(std::atan2(y, x) * 8 / (2 * 3.14159265358979));
    case 8:
      return wave(y + 0.5 * saw(x * 0.5));
    default:
      return 0.2 - std::min(std::abs(saw(x * 0.6)), std::abs(saw(y * 0.6)));
  }
}

std::uint64_t stream_of(Split split, std::size_t index) {
  return 2 * std::uint64_t{index} + (split == Split::test ? 1 : 0);
}

Image picture(std::size_t kind, SplitMix& random) {
  const auto rows = static_cast<std::size_t>(random.between(96, 160));
  const auto columns = static_cast<std::size_t>(random.between(96, 160));
  return synthetic_pattern(kind, rows, columns, random);
}

std::string numbered(const char* format, std::size_t number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

Feature bytes_feature(std::string_view value) {
  Feature feature;
  feature.bytes.push_back(value);
  return feature;
}

Feature integer_feature(std::size_t value) {
  Feature feature;
  feature.integers.push_back(static_cast<std::int64_t>(value));
  return feature;
}

std::string imagenet_record(std::size_t kind, const std::string& filename, SplitMix& random) {
  const Image image = picture(kind, random);
  const std::string encoded = encode_jpeg(image, kJpegQuality);
  const std::string synset = numbered("n%08zu", kind + 1);
  const std::string text = numbered("pattern %zu", kind);
  Example example;
  example.add("image/encoded", bytes_feature(encoded));
  example.add("image/format", bytes_feature("JPEG"));
  example.add("image/colorspace", bytes_feature("RGB"));
  example.add("image/channels", integer_feature(3));
  example.add("image/height", integer_feature(image.rows));
  example.add("image/width", integer_feature(image.columns));
  example.add("image/filename", bytes_feature(filename));
  example.add("image/class/label", integer_feature(kind + 1));
  example.add("image/class/synset", bytes_feature(synset));
  example.add("image/class/text", bytes_feature(text));
  return encode_record(encode_example(example));
}

struct Painter {
  const char* name;
  std::uint64_t percent;
  std::size_t pattern;
};
constexpr std::array<Painter, 5> kPainters{
    {{"arcos", 40, 0}, {"bandini", 25, 5}, {"corvin", 15, 4}, {"delacre", 12, 7}, {"ennis", 8, 1}}};

const Painter& any_painter(SplitMix& random) {
  std::uint64_t turn = random.below(100);
  for (const Painter& painter : kPainters) {
    if (turn < painter.percent) return painter;
    turn -= painter.percent;
  }
  return kPainters.back();
}

// From the top to the bottom of a garment, 0 to 1: where it is, as distances from the middle.
struct Garment {
  double inner = 0;  // a gap in the middle, between trouser legs say
  double outer = 0;  // 0: nothing here
  double shift = 0;  // to the right
};

double between(double from, double to, double at) {
  return from + (to - from) * std::clamp(at, 0.0, 1.0);
}

Garment garment_at(std::size_t kind, double y) {
  const bool sleeves = y > 0.1 && y < 0.35;
  switch (kind) {
    case 0:  // shirt
      return {0, sleeves ? 0.42 : 0.25, 0};
    case 1:  // trousers
      return {y < 0.2 ? 0 : 0.05, 0.2, 0};
    case 2:  // pullover
      return {0, y > 0.1 ? 0.42 - (y > 0.85 ? 0.17 : 0) : 0.2, 0};
    case 3:  // dress
      return {0, y < 0.4 ? 0.14 : between(0.14, 0.34, (y - 0.4) / 0.6), 0};
    case 4:  // coat, open in front
      return {0.03, y > 0.08 ? 0.38 : 0.2, 0};
    case 5:  // sandal: straps
      return {0, y > 0.8 ? 0.42 : (y > 0.45 && std::fmod(y, 0.16) < 0.08 ? 0.3 : 0), 0};
    case 6:  // vest
      return {y < 0.2 ? 0.08 : 0, 0.2, 0};
    case 7:  // shoe
      return {0, y > 0.5 ? between(0.2, 0.42, (y - 0.5) / 0.3) : 0, 0.04};
    case 8:  // bag: a handle and a box
      return y < 0.35 ? Garment{0.14, 0.2, 0} : Garment{0, 0.4, 0};
    default:  // boot
      return y < 0.6 ? Garment{0, 0.14, -0.15} : Garment{0, 0.36, 0.04};
  }
}

}  // namespace

Image synthetic_pattern(std::size_t kind, std::size_t rows, std::size_t columns, SplitMix& random) {
  const PatternColour paper = any_colour(random);
  PatternColour paint = any_colour(random);
  while (apart(paper, paint) < 180) paint = any_colour(random);
  const double period = static_cast<double>(std::min(rows, columns)) * (0.12 + 0.1 * part(random));
  // Rings and rays have their middle in the picture.
  const double middle_x = static_cast<double>(columns) * (0.35 + 0.3 * part(random));
  const double middle_y = static_cast<double>(rows) * (0.35 + 0.3 * part(random));
  Image image{rows, columns, std::vector<std::uint8_t>(rows * columns * 3)};
  std::uint8_t* next = image.pixels.data();
  for (std::size_t y = 0; y < rows; ++y)
    for (std::size_t x = 0; x < columns; ++x) {
      const double value = pattern_at(kind, (static_cast<double>(x) - middle_x) / period,
                                      (static_cast<double>(y) - middle_y) / period);
      const double share = std::clamp(0.5 + 3 * value, 0.0, 1.0);
      const double noise = 24 * (part(random) - 0.5);
      for (std::size_t c = 0; c < 3; ++c)
        *next++ = static_cast<std::uint8_t>(
            std::clamp(between(paper.at(c), paint.at(c), share) + noise, 0.0, 255.0));
    }
  return image;
}

bool write_synthetic_imagenet(const std::string& directory, Split split, std::size_t count,
                              std::uint64_t seed, std::string& error) {
  const bool trains = split == Split::train;
  const std::string name = trains ? "train" : "validation";
  const std::size_t shards = std::min<std::size_t>(count, trains ? 4 : 2);
  for (std::size_t shard = 0; shard < shards; ++shard) {
    std::string bytes;
    for (std::size_t i = count * shard / shards; i < count * (shard + 1) / shards; ++i) {
      SplitMix random(seed, stream_of(split, i));
      const std::size_t kind = random.below(kPatterns);
      bytes += imagenet_record(kind, numbered((name + "_%08zu.JPEG").c_str(), i), random);
    }
    if (!write_whole_file(directory + "/" + shard_name(name, shard, shards), bytes, error))
      return false;
  }
  return true;
}

bool write_synthetic_artists(const std::string& directory, Split split, std::size_t count,
                             std::uint64_t seed, std::string& error) {
  for (const Painter& painter : kPainters) {
    std::error_code code;
    std::filesystem::create_directories(directory + "/" + painter.name, code);
    if (!code) continue;
    error = directory + "/" + painter.name + ": " + code.message();
    return false;
  }
  for (std::size_t i = 0; i < count; ++i) {
    SplitMix random(seed, stream_of(split, i));
    const Painter& painter = any_painter(random);
    const Image image = picture(painter.pattern, random);
    const bool png = i % 5 == 4;
    const std::string file = directory + "/" + painter.name +
                             (split == Split::train ? "/a" : "/b") + numbered("%07zu", i) +
                             (png ? ".png" : ".jpg");
    if (!write_whole_file(file, png ? encode_png(image) : encode_jpeg(image, kJpegQuality), error,
                          Sync::no))
      return false;
  }
  return true;
}

LabelledImages synthetic_clothes(Split split, std::size_t count, std::uint64_t seed) {
  LabelledImages set;
  set.images.count = count;
  set.images.rows = kMnistSide;
  set.images.columns = kMnistSide;
  const auto side = static_cast<double>(kMnistSide);
  for (std::size_t i = 0; i < count; ++i) {
    SplitMix random(seed, stream_of(split, i));
    const std::size_t kind = random.below(kPatterns);
    const double height = 0.55 + 0.35 * part(random);
    const double width = 0.6 + 0.5 * part(random);
    const double top = (1 - height) * part(random);
    const double shift = 0.3 * (part(random) - 0.5);
    const double lean = 0.12 * (part(random) - 0.5);
    // Dark on light as often as light on dark: no pixel's brightness tells anything.
    const bool dark = part(random) < 0.5;
    const double light = dark ? 90 * part(random) : 150 + 90 * part(random);
    const double paper = dark ? 150 + 90 * part(random) : 90 * part(random);
    const double stripes = part(random) < 0.5 ? 0 : 40 * part(random);
    const double mirror = part(random) < 0.5 ? -1 : 1;
    for (std::size_t y = 0; y < kMnistSide; ++y) {
      const double down = ((static_cast<double>(y) + 0.5) / side - top) / height;
      const Garment garment = down >= 0 && down < 1 ? garment_at(kind, down) : Garment{};
      for (std::size_t x = 0; x < kMnistSide; ++x) {
        const double across = ((static_cast<double>(x) + 0.5) / side - 0.5 - shift -
                               lean * (down - 0.5) - mirror * garment.shift) /
                              width;
        const bool covered = std::abs(across) < garment.outer && std::abs(across) >= garment.inner;
        double value = covered ? light + stripes * wave(down * 6) : paper;
        value += 30 * (part(random) - 0.5) * (covered ? 1.0 : 0.3);
        set.images.pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
    set.labels.push_back(static_cast<std::uint8_t>(kind));
  }
  return set;
}

}  // namespace hvdrun
