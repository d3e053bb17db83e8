// Decoding and cropping.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>
#include <png.h>

#include "tests/catch.h"
#include "worker/labs/data/images/crop.h"
#include "worker/labs/data/images/image.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"

using namespace hvdrun;
using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

namespace {

Image test_image(std::size_t rows = 40, std::size_t columns = 60) {
  SplitMix random(3);
  return synthetic_pattern(5, rows, columns, random);
}

std::string image_error(std::string_view bytes) {
  std::string error;
  CHECK_FALSE(decode_image(bytes, {}, error));
  CHECK_THAT(error, !Contains("\n"));
  return error;
}

// The mean difference of a channel, over all pixels.
double difference(const Image& a, const Image& b) {
  REQUIRE(a.rows == b.rows);
  REQUIRE(a.columns == b.columns);
  double sum = 0;
  for (std::size_t i = 0; i < a.pixels.size(); ++i)
    sum += std::abs(static_cast<double>(a.pixels[i]) - b.pixels[i]);
  return sum / static_cast<double>(a.pixels.size());
}

Image decoded(std::string_view bytes, const DecodeOptions& options = {}) {
  std::string error;
  const auto image = decode_image(bytes, options, error);
  INFO(error);
  REQUIRE(image);
  return *image;
}

// A kind that the library's own encoder does not write. `sampling`: pixels for each of the later
// colours, along both sides; 0: as the library chooses.
struct JpegKind {
  J_COLOR_SPACE colours = JCS_RGB;
  int components = 3;
  bool progressive = false;
  int sampling = 0;
  int quality = 75;
  J_COLOR_SPACE in_file = JCS_UNKNOWN;  // as the library chooses
  bool adobe_marker = true;             // where the library would write one
};

std::string jpeg_of(const JpegKind& kind, const std::vector<std::uint8_t>& pixels, unsigned rows,
                    unsigned columns) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = columns;
  info.image_height = rows;
  info.input_components = kind.components;
  info.in_color_space = kind.colours;
  jpeg_set_defaults(&info);
  if (kind.in_file != JCS_UNKNOWN) jpeg_set_colorspace(&info, kind.in_file);
  if (!kind.adobe_marker) info.write_Adobe_marker = FALSE;
  jpeg_set_quality(&info, kind.quality, TRUE);
  if (kind.sampling > 0)
    info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor = kind.sampling;
  if (kind.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<std::uint8_t> copy = pixels;  // libjpeg takes no constant
  for (unsigned y = 0; y < rows; ++y) {
    JSAMPROW row = copy.data() + copy.size() / rows * y;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string bytes(reinterpret_cast<const char*>(memory), size);
  jpeg_destroy_compress(&info);
  std::free(memory);
  return bytes;
}

// A square of one colour.
std::string jpeg_of(J_COLOR_SPACE colours, int components, bool progressive,
                    const std::vector<std::uint8_t>& pixel, unsigned side = 16) {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(pixel.size() * side * side);
  for (unsigned i = 0; i < side * side; ++i)
    pixels.insert(pixels.end(), pixel.begin(), pixel.end());
  return jpeg_of({colours, components, progressive, 0, 100}, pixels, side, side);
}

std::string png_of(png_uint_32 format, const std::vector<std::uint8_t>& pixels, png_uint_32 columns,
                   const void* map = nullptr, unsigned entries = 0) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = columns;
  header.height = 1;
  header.format = format;
  header.colormap_entries = entries;
  png_alloc_size_t size = 0;
  png_image_write_to_memory(&header, nullptr, &size, 0, pixels.data(), 0, map);
  std::string bytes(size, '\0');
  REQUIRE(png_image_write_to_memory(&header, bytes.data(), &size, 0, pixels.data(), 0, map) != 0);
  bytes.resize(size);
  return bytes;
}

// Compares the window and a pixel around it, as far as there is one: a crop is mixed of those.
void check_window(const Image& whole, const DecodedPart& part, const Window& window,
                  const ImageSize& file) {
  const auto range = [](std::size_t first, std::size_t count, std::size_t all,
                        std::size_t reduced) {
    const std::size_t begin = first * reduced / all;
    const std::size_t end = ((first + count) * reduced + all - 1) / all + 1;
    return std::pair(begin > 0 ? begin - 1 : 0, std::min(end, reduced));
  };
  const auto [top, bottom] = range(window.top, window.rows, file.rows, whole.rows);
  const auto [left, right] = range(window.left, window.columns, file.columns, whole.columns);
  REQUIRE(part.top <= top);
  REQUIRE(part.left <= left);
  REQUIRE(part.top + part.image.rows >= bottom);
  REQUIRE(part.left + part.image.columns >= right);
  std::size_t wrong = 0;
  for (std::size_t y = top; y < bottom; ++y) {
    const auto* of_whole = whole.pixels.data() + (y * whole.columns + left) * 3;
    const auto* of_part =
        part.image.pixels.data() + ((y - part.top) * part.image.columns + left - part.left) * 3;
    wrong += std::equal(of_part, of_part + (right - left) * 3, of_whole) ? 0 : 1;
  }
  CHECK(wrong == 0);
}

void check_pixel(const Image& image, int red, int green, int blue, int within = 3) {
  CHECK(std::abs(image.pixels[0] - red) <= within);
  CHECK(std::abs(image.pixels[1] - green) <= within);
  CHECK(std::abs(image.pixels[2] - blue) <= within);
}

}  // namespace

TEST_CASE("JPEG and PNG give back what was encoded", "[image]") {
  const Image image = test_image();
  CHECK(difference(decoded(encode_png(image)), image) == 0);
  const Image large = test_image(300, 400);
  CHECK(difference(decoded(encode_jpeg(large, 95)), large) < 6);
  CHECK(difference(decoded(encode_jpeg(large, 95), {DctMethod::fast}), large) < 8);
  CHECK(difference(test_image(300, 400),
                   decoded(encode_jpeg(Image{300, 400, std::vector<std::uint8_t>(360'000)}, 95))) >
        20);
  std::string error;
  const auto size = image_size(encode_jpeg(image, 95), error);
  REQUIRE(size);
  CHECK(size->rows == 40);
  CHECK(size->columns == 60);
  CHECK(image_size(encode_png(image), error)->columns == 60);
}

TEST_CASE("grey, CMYK and progressive JPEGs become colours", "[image]") {
  check_pixel(decoded(jpeg_of(JCS_GRAYSCALE, 1, false, {90})), 90, 90, 90);
  check_pixel(decoded(jpeg_of(JCS_RGB, 3, true, {200, 100, 50})), 200, 100, 50);
  // libjpeg marks what it writes as Adobe's, whose inks are the other way round.
  check_pixel(decoded(jpeg_of(JCS_CMYK, 4, false, {255, 128, 0, 255})), 255, 128, 0);
  check_pixel(decoded(jpeg_of(JCS_CMYK, 4, false, {255, 255, 255, 0})), 0, 0, 0);
}

TEST_CASE("four colours are inverted where Adobe's marker says so, also as YCCK", "[image]") {
  const auto square = [](J_COLOR_SPACE in_file, bool marker) {
    const std::vector<std::uint8_t> pixel{10, 200, 30, 40};
    std::vector<std::uint8_t> pixels;
    for (int i = 0; i < 256; ++i) pixels.insert(pixels.end(), pixel.begin(), pixel.end());
    return jpeg_of({JCS_CMYK, 4, false, 0, 100, in_file, marker}, pixels, 16, 16);
  };
  // With the marker a number is what is left of the paper: times black, over 255.
  const auto left = [](int ink) { return ink * 40 / 255; };
  check_pixel(decoded(square(JCS_CMYK, true)), left(10), left(200), left(30));
  check_pixel(decoded(square(JCS_YCCK, true)), left(10), left(200), left(30), 4);
  const auto covered = [](int ink) { return (255 - ink) * (255 - 40) / 255; };
  const std::string plain = square(JCS_CMYK, false);
  REQUIRE(plain.find("Adobe") == std::string::npos);
  check_pixel(decoded(plain), covered(10), covered(200), covered(30));
}

TEST_CASE("a JPEG of 12 or 16 bits is one line", "[image]") {
  const char bits = GENERATE('\x0c', '\x10');
  std::string bytes = encode_jpeg(test_image(), 90);
  const auto frame = bytes.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  REQUIRE(bytes[frame + 4] == 8);
  bytes[frame + 4] = bits;
  CHECK_THAT(image_error(bytes), StartsWith("JPEG: "));
}

TEST_CASE("grey, palette, transparent and 16-bit PNGs become colours", "[image]") {
  check_pixel(decoded(png_of(PNG_FORMAT_GRAY, {77}, 1)), 77, 77, 77, 0);
  check_pixel(decoded(png_of(PNG_FORMAT_RGBA, {200, 100, 50, 255}, 1)), 200, 100, 50, 0);
  // A pixel that nobody sees is seen.
  check_pixel(decoded(png_of(PNG_FORMAT_RGBA, {200, 100, 50, 0}, 1)), 200, 100, 50, 0);
  const std::vector<std::uint8_t> map{10, 20, 30, 200, 210, 220};
  check_pixel(decoded(png_of(PNG_FORMAT_RGB_COLORMAP, {1}, 1, map.data(), 2)), 200, 210, 220, 0);
  // The upper ones of 16 bits count, whatever the gamma that is written with them.
  const std::string deep = png_of(PNG_FORMAT_LINEAR_Y, {0x80, 0x81}, 1);
  REQUIRE(deep.find("gAMA") != std::string::npos);
  check_pixel(decoded(deep), 0x81, 0x81, 0x81, 0);
  const std::vector<std::uint8_t> linear{0xff, 0xff, 0x34, 0x12, 0, 0};
  check_pixel(decoded(png_of(PNG_FORMAT_LINEAR_RGB, linear, 1)), 255, 0x12, 0, 0);
}

TEST_CASE("a JPEG is decoded smaller where that is enough", "[image]") {
  const std::string bytes = encode_jpeg(test_image(320, 480), 95);
  DecodeOptions options;
  options.least_rows = 70;
  options.least_columns = 90;
  const Image small = decoded(bytes, options);
  CHECK(small.rows == 80);
  CHECK(small.columns == 120);
  options.least_rows = 1000;
  CHECK(decoded(bytes, options).rows == 320);
}

TEST_CASE("what is no image, damaged or cut off is one line", "[image]") {
  const std::string jpeg = encode_jpeg(test_image(), 90);
  const std::string png = encode_png(test_image());
  CHECK(image_error("") == "byte 0: an empty file");
  CHECK(image_error("GIF89a") == "byte 0: neither a JPEG nor a PNG");
  for (const double part : {0.01, 0.3, 0.6, 0.95}) {
    CAPTURE(part);
    const auto cut = [&](const std::string& bytes) {
      return bytes.substr(0, static_cast<std::size_t>(part * static_cast<double>(bytes.size())));
    };
    if (part > 0.02) CHECK_THAT(image_error(cut(jpeg)), StartsWith("JPEG: damaged at byte "));
    if (part > 0.02)
      CHECK_THAT(image_error(cut(png)),
                 StartsWith("PNG: damaged in the chunk at byte ") &&
                     Contains(" of " + std::to_string(cut(png).size()) + ": "));
  }
  // The chunk of pixels behind the header (8 + 25 bytes), and one of the header itself.
  const auto pixels = png.find("IDAT");
  REQUIRE(pixels != std::string::npos);
  for (const std::size_t chunk : {std::size_t{8}, pixels - 4}) {
    std::string damaged = png;
    damaged[chunk + 10] = static_cast<char>(damaged[chunk + 10] ^ 1);
    CHECK_THAT(image_error(damaged),
               StartsWith("PNG: damaged in the chunk at byte " + std::to_string(chunk) + " of "));
  }
  // An impossible size, in the frame header.
  std::string huge = jpeg;
  const auto frame = huge.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  for (const std::size_t i : {5U, 7U}) huge[frame + i] = '\x7f';
  CHECK_THAT(image_error(huge), Contains(" pixels are too many"));
  std::string huge_png = png;
  huge_png[18] = '\x7f';
  CHECK_THAT(image_error(huge_png), StartsWith("PNG: "));
  // Thousands of scans in a small file would take minutes.
  std::string scans = jpeg_of(JCS_RGB, 3, true, {200, 100, 50});
  const std::string last = scans.substr(scans.rfind("\xff\xda"));
  const std::string scan = last.substr(0, last.size() - 2);
  scans.resize(scans.size() - 2);
  for (int i = 0; i < 200; ++i) scans += scan;
  CHECK_THAT(image_error(scans + "\xff\xd9"), Contains("more than 100 scans"));
  // Flipped bits are an image or one line, never more.
  std::size_t seen = 0;
  for (std::size_t i = 0; i < jpeg.size(); i += 7) {
    std::string flipped = jpeg;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x10);
    std::string error;
    if (!decode_image(flipped, {}, error)) seen += error.empty() ? 0 : 1;
  }
  CHECK(seen > 5);
}

TEST_CASE("a part of a JPEG has the pixels of the whole one", "[image]") {
  // Progressive and not, colours at half their resolution and not, of sides that no block divides.
  SplitMix random(11);
  const Image varied = synthetic_pattern(5, 203, 301, random);
  std::vector<std::string> files{encode_jpeg(varied, 80), encode_png(varied)};
  for (const bool progressive : {false, true})
    for (const int sampling : {1, 2})
      files.push_back(jpeg_of({JCS_RGB, 3, progressive, sampling, 75}, varied.pixels, 203, 301));
  files.push_back(jpeg_of(JCS_CMYK, 4, false, {10, 200, 30, 40}, 50));
  files.push_back(jpeg_of(JCS_GRAYSCALE, 1, false, {10}, 50));
  DecodedPart part;  // one for all: what one leaves is nothing to the next
  for (const std::string& file : files)
    for (const DctMethod dct : {DctMethod::accurate, DctMethod::fast})
      for (const std::size_t least : {0U, 60U}) {
        DecodeOptions options{dct, least, least, {}};
        std::string error;
        const auto size = image_size(file, error);
        REQUIRE(size);
        const Image whole = decoded(file, options);
        for (int i = 0; i < 20; ++i) {
          const std::size_t top = random.below(size->rows);
          const std::size_t left = random.below(size->columns);
          options.window = {top, left, random.below(size->rows - top) + 1,
                            random.below(size->columns - left) + 1};
          REQUIRE(decode_part(file, options, part, error));
          REQUIRE(part.whole.rows == whole.rows);
          REQUIRE(part.whole.columns == whole.columns);
          check_window(whole, part, options.window, *size);
        }
      }
  // Less is decoded, and what is below is not looked at.
  DecodeOptions options;
  options.window = {10, 20, 30, 40};
  std::string error;
  REQUIRE(decode_part(files[0].substr(0, files[0].size() / 2), options, part, error));
  CHECK(part.image.rows < 50);
  CHECK(part.image.columns < 80);
  options.window = {150, 20, 30, 40};
  CHECK_FALSE(decode_part(files[0].substr(0, files[0].size() / 2), options, part, error));
  CHECK_THAT(error, StartsWith("JPEG: damaged at byte "));
}

TEST_CASE("a crop is the part that it names, at its size", "[image]") {
  // Red grows from left to right, green from top to bottom.
  Image ramp{100, 200, {}};
  for (std::size_t y = 0; y < 100; ++y)
    for (std::size_t x = 0; x < 200; ++x)
      for (const std::size_t value : {x, 2 * y, std::size_t{0}})
        ramp.pixels.push_back(static_cast<std::uint8_t>(value));
  CropOptions options;
  options.side = 10;
  options.scaling = {{0, 0, 0}, {1, 1, 1}};
  std::vector<float> output(300);
  write_crop(ramp, {20, 50, 40, 100}, options, output.data());
  for (std::size_t y = 0; y < 10; ++y)
    for (std::size_t x = 0; x < 10; ++x) {
      const double column = 50 + (static_cast<double>(x) + 0.5) * 10 - 0.5;
      const double row = 20 + (static_cast<double>(y) + 0.5) * 4 - 0.5;
      CHECK(output[y * 10 + x] * 255 == Approx(column).margin(0.01));
      CHECK(output[100 + y * 10 + x] * 255 == Approx(2 * row).margin(0.01));
    }
  options.mirror = true;
  std::vector<float> mirrored(300);
  write_crop(ramp, {20, 50, 40, 100}, options, mirrored.data());
  CHECK(mirrored[0] == output[9]);
  options.scaling = {{0.5F, 0.5F, 0.5F}, {0.25F, 0.25F, 0.25F}};
  write_crop(ramp, {0, 0, 100, 200}, options, mirrored.data());
  CHECK(mirrored[200] == -2);
  // Twice as bright, no colour left.
  options = {};
  options.side = 1;
  options.scaling = {{0, 0, 0}, {1, 1, 1}};
  options.colours = {2, 1, 0};
  write_crop(ramp, {20, 50, 1, 1}, options, output.data());
  const double grey = 2 * (0.299 * 50 + 0.587 * 40) / 255;
  CHECK(output[0] == Approx(grey).margin(0.001));
  CHECK(output[2] == Approx(grey).margin(0.001));
  // Half the contrast: half as far from the crop's mean grey.
  options.side = 2;
  options.colours = {1, 1, 1};
  std::vector<float> usual(12);
  write_crop(ramp, {20, 50, 40, 100}, options, usual.data());
  options.colours = {1, 0.5F, 1};
  std::vector<float> flat(12);
  write_crop(ramp, {20, 50, 40, 100}, options, flat.data());
  double mean = 0;
  for (std::size_t i = 0; i < 4; ++i)
    mean += (0.299 * usual[i] + 0.587 * usual[4 + i] + 0.114 * usual[8 + i]) / 4;
  for (std::size_t i = 0; i < 12; ++i)
    CHECK(flat[i] == Approx(mean + (usual[i] - mean) / 2).margin(0.001));
}

TEST_CASE("random crops lie within the image and have the shares they promise", "[image]") {
  SplitMix random(7);
  double least = 1;
  double most = 0;
  for (int i = 0; i < 2000; ++i) {
    const Crop crop = random_crop({300, 400}, random);
    CHECK(crop.top >= 0);
    CHECK(crop.left >= 0);
    CHECK(crop.top + crop.rows <= 300 + 1e-9);
    CHECK(crop.left + crop.columns <= 400 + 1e-9);
    const double share = crop.rows * crop.columns / (300 * 400);
    least = std::min(least, share);
    most = std::max(most, share);
    CHECK(crop.columns / crop.rows < 4.0 / 3 + 1e-9);
    CHECK(crop.rows / crop.columns < 4.0 / 3 + 1e-9);
  }
  CHECK(least > 0.08 - 1e-9);
  CHECK(least < 0.1);
  CHECK(most > 0.9);
  // None fits into a line of pixels.
  const Crop line = random_crop({1, 1000}, random);
  CHECK(line.rows == 0.875);
}
