#include "worker/labs/data/images/png_image.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <zlib.h>

#include <png.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMagicSize = 8;
constexpr png_uint_32 kLibpngsMost = 0x7fff'ffff;  // of rows and of columns

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// The place of the first chunk, in a PNG that cannot be read, that is cut off or whose checksum is
// wrong; where all are whole, that of the pixels, in which the fault then is.
std::string fault_in_png(std::string_view bytes) {
  const std::string of = " of " + std::to_string(bytes.size());
  std::size_t pixels = kMagicSize;
  std::size_t at = kMagicSize;
  while (at < bytes.size()) {
    const std::string_view chunk = bytes.substr(at);
    const std::size_t length = chunk.size() < 4 ? chunk.size() : big_endian(chunk);
    if (chunk.size() < 12 || length > chunk.size() - 12) break;
    const std::string_view checked = chunk.substr(4, 4 + length);
    const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size());
    if (sum != big_endian(chunk.substr(8 + length))) break;
    if (checked.substr(0, 4) == "IDAT" && pixels == kMagicSize) pixels = at;
    at += 12 + length;
  }
  return "in the chunk at byte " + std::to_string(at < bytes.size() ? at : pixels) + of + ": ";
}

// The things that libpng's functions work with. Owned by the caller of setjmp, so that a jump finds
// it again.
struct PngDecoder {
  explicit PngDecoder(std::string_view whole) : bytes(whole) {}
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;
  ~PngDecoder() { png_destroy_read_struct(&png, &info, nullptr); }

  std::string_view bytes;
  std::size_t read = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf back{};
  std::array<char, 128> text{};
  bool refused = false;  // for its size
  ImageSize size;
  std::vector<png_bytep> rows;
};

// libpng leaves through this one, which must not return: a jump over C frames only, back to where
// nothing with a destructor has been made since.
[[noreturn]] void leave_libpng(png_structp png, png_const_charp text) {
  auto* const decoder = static_cast<PngDecoder*>(png_get_error_ptr(png));
  std::snprintf(decoder->text.data(), decoder->text.size(), "%s", text);
  std::longjmp(decoder->back, 1);
}

void pass_over_warning(png_structp, png_const_charp) {}

void give_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* const decoder = static_cast<PngDecoder*>(png_get_io_ptr(png));
  if (count > decoder->bytes.size() - decoder->read) png_error(png, "the file ends too early");
  std::memcpy(to, decoder->bytes.data() + decoder->read, count);
  decoder->read += count;
}

void begin_reading(PngDecoder& decoder) {
  decoder.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, leave_libpng, pass_over_warning);
  if (decoder.png == nullptr) throw std::bad_alloc();
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) throw std::bad_alloc();
}

// No object with a destructor is made in here: a jump passes over none.
// NOLINTNEXTLINE(cert-err52-cpp): the library's only way to report an error
bool read_png_header(PngDecoder& decoder) {
  if (setjmp(decoder.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  png_structp png = decoder.png;
  png_set_read_fn(png, &decoder, give_bytes);
  // Readers differ in what they make of colours that a file wants converted, and most make nothing
  // of it. A model is to see the numbers as they are, so gamma, profile and the like are not even
  // looked at, nor are texts: all but what the pixels need.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_user_limits(png, kLibpngsMost, kLibpngsMost);  // ours are below
  png_read_info(png, decoder.info);
  const ImageSize size{png_get_image_height(png, decoder.info),
                       png_get_image_width(png, decoder.info)};
  decoder.size = size;
  decoder.refused = size.rows > kMaxImageSide || size.columns > kMaxImageSide ||
                    size.rows * size.columns > kMaxImagePixels;
  return !decoder.refused;
}

// Red, green and blue of 8 bits whatever the file has. Of 16 bits the upper ones, of fewer their
// share of the range; what is transparent has the colour that the file gives it.
// NOLINTNEXTLINE(cert-err52-cpp)
bool read_png_pixels(PngDecoder& decoder) {
  if (setjmp(decoder.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  png_structp png = decoder.png;
  png_set_strip_16(png);
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  if (png_get_rowbytes(png, decoder.info) != decoder.size.columns * 3)
    png_error(png, "an unknown kind of pixels");
  png_read_image(png, decoder.rows.data());
  return true;
}

std::string trouble_of(const PngDecoder& decoder) {
  if (decoder.refused)
    return "PNG: " + std::to_string(decoder.size.columns) + "x" +
           std::to_string(decoder.size.rows) + " pixels are too many";
  return "PNG: damaged " + fault_in_png(decoder.bytes) + decoder.text.data();
}

}  // namespace

bool decode_png(std::string_view bytes, DecodedPart& part, std::string& error) {
  PngDecoder decoder(bytes);
  begin_reading(decoder);
  bool good = read_png_header(decoder);
  if (good) {
    part.whole = decoder.size;
    part.top = part.left = 0;
    part.image.rows = part.whole.rows;
    part.image.columns = part.whole.columns;
    part.image.pixels.resize(part.image.rows * part.image.columns * 3);
    for (std::size_t row = 0; row < part.image.rows; ++row)
      decoder.rows.push_back(part.image.pixels.data() + row * part.image.columns * 3);
    good = read_png_pixels(decoder);
  }
  if (!good) error = trouble_of(decoder);
  return good;
}

std::optional<ImageSize> png_size(std::string_view bytes, std::string& error) {
  PngDecoder decoder(bytes);
  begin_reading(decoder);
  if (read_png_header(decoder)) return decoder.size;
  error = trouble_of(decoder);
  return std::nullopt;
}

std::string encode_png(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.columns);
  header.height = static_cast<png_uint_32>(image.rows);
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  if (png_image_write_to_memory(&header, nullptr, &size, 0, image.pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(std::string("PNG: ") + header.message);
  std::string bytes(size, '\0');
  if (png_image_write_to_memory(&header, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr) ==
      0)
    throw std::runtime_error(std::string("PNG: ") + header.message);
  bytes.resize(size);
  return bytes;
}

}  // namespace hvdrun
