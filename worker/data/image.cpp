#include "worker/data/image.h"

#include <stdexcept>
#include <zlib.h>

#include <png.h>

#include "worker/data/jpeg.h"

namespace hvdrun {
namespace {

constexpr std::string_view kJpegMagic = "\xff\xd8\xff";
constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";

bool begins_with(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic;
}

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// Of a PNG that cannot be read the place of the first chunk that is cut off or whose checksum is
// wrong; where all are whole, that of the pixels, in which the fault then is.
std::string fault_in_png(std::string_view bytes) {
  const std::string of = " of " + std::to_string(bytes.size());
  std::size_t pixels = kPngMagic.size();
  std::size_t at = kPngMagic.size();
  while (at < bytes.size()) {
    const std::string_view chunk = bytes.substr(at);
    const std::size_t length = chunk.size() < 4 ? chunk.size() : big_endian(chunk);
    if (chunk.size() < 12 || length > chunk.size() - 12) break;
    const std::string_view checked = chunk.substr(4, 4 + length);
    const auto sum = crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size());
    if (sum != big_endian(chunk.substr(8 + length))) break;
    if (checked.substr(0, 4) == "IDAT" && pixels == kPngMagic.size()) pixels = at;
    at += 12 + length;
  }
  return "in the chunk at byte " + std::to_string(at < bytes.size() ? at : pixels) + of + ": ";
}

// libpng's simplified interface: it returns where the other one would jump.
class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : bytes_(bytes) {
    image_.version = PNG_IMAGE_VERSION;
    begun_ = png_image_begin_read_from_memory(&image_, bytes.data(), bytes.size()) != 0;
  }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_image_free(&image_); }

  bool check(std::string& error) const {
    if (!begun_) {
      error = "PNG: damaged " + fault_in_png(bytes_) + image_.message;
    } else if (image_.width > kMaxImageSide || image_.height > kMaxImageSide ||
               std::size_t{image_.width} * image_.height > kMaxImagePixels) {
      error = "PNG: " + std::to_string(image_.width) + "x" + std::to_string(image_.height) +
              " pixels are too many";
    } else {
      return true;
    }
    return false;
  }

  ImageSize size() const { return {image_.height, image_.width}; }

  bool read(std::vector<std::uint8_t>& pixels, std::string& error) {
    image_.format = PNG_FORMAT_RGB;
    // 16 bits without a gamma are as 8 bits are, not linear.
    image_.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;
    pixels.resize(PNG_IMAGE_SIZE(image_));
    const png_color black{0, 0, 0};
    if (png_image_finish_read(&image_, &black, pixels.data(), 0, nullptr) != 0 &&
        (image_.warning_or_error & PNG_IMAGE_ERROR) == 0)
      return true;
    error = "PNG: damaged " + fault_in_png(bytes_) + image_.message;
    return false;
  }

 private:
  std::string_view bytes_;
  png_image image_{};
  bool begun_ = false;
};

bool decode_png(std::string_view bytes, DecodedPart& part, std::string& error) {
  PngReader reader(bytes);
  if (!reader.check(error)) return false;
  part.whole = reader.size();
  part.top = part.left = 0;
  part.image.rows = part.whole.rows;
  part.image.columns = part.whole.columns;
  return reader.read(part.image.pixels, error);
}

std::string unknown_kind(std::string_view bytes) {
  return bytes.empty() ? "byte 0: an empty file" : "byte 0: neither a JPEG nor a PNG";
}

}  // namespace

bool decode_part(std::string_view bytes, const DecodeOptions& options, DecodedPart& part,
                 std::string& error) {
  if (begins_with(bytes, kJpegMagic)) return decode_jpeg(bytes, options, part, error);
  if (begins_with(bytes, kPngMagic)) return decode_png(bytes, part, error);
  error = unknown_kind(bytes);
  return false;
}

std::optional<Image> decode_image(std::string_view bytes, DecodeOptions options,
                                  std::string& error) {
  options.window = {};
  DecodedPart part;
  if (!decode_part(bytes, options, part, error)) return std::nullopt;
  return std::move(part.image);
}

std::optional<ImageSize> image_size(std::string_view bytes, std::string& error) {
  if (begins_with(bytes, kJpegMagic)) return jpeg_size(bytes, error);
  if (begins_with(bytes, kPngMagic)) {
    const PngReader reader(bytes);
    if (!reader.check(error)) return std::nullopt;
    return reader.size();
  }
  error = unknown_kind(bytes);
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
