#include "worker/labs/data/images/image.h"

#include "worker/labs/data/images/jpeg.h"
#include "worker/labs/data/images/png_image.h"

namespace hvdrun {
namespace {

constexpr std::string_view kJpegMagic = "\xff\xd8\xff";
constexpr std::string_view kPngMagic = "\x89PNG\r\n\x1a\n";

bool begins_with(std::string_view bytes, std::string_view magic) {
  return bytes.substr(0, magic.size()) == magic;
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
  if (begins_with(bytes, kPngMagic)) return png_size(bytes, error);
  error = unknown_kind(bytes);
  return std::nullopt;
}

}  // namespace hvdrun
