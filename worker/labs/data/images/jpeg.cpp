#include "worker/labs/data/images/jpeg.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <jpeglib.h>
// After it.
#include <jerror.h>

namespace hvdrun {
namespace {

// libjpeg leaves through error_exit, which must not return: a jump over C frames only, back to
// where nothing with a destructor has been made since.
struct JpegErrors {
  jpeg_error_mgr manager;
  std::jmp_buf back;
  std::array<char, JMSG_LENGTH_MAX> text;
};

[[noreturn]] void leave_libjpeg(j_common_ptr info) {
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  info->err->format_message(info, errors->text.data());
  std::longjmp(errors->back, 1);
}

// Level -1 is a warning: libjpeg would go on and make something up for what is missing.
void judge_warning(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_JPEG_EOF:
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
      leave_libjpeg(info);
    default:
      ++info->err->num_warnings;  // bytes between markers, say
  }
}

// A progressive JPEG is gone over once for each of its scans. Those of cameras and programs have
// ten or so; a small file can have thousands.
constexpr int kMaxScans = 100;

void limit_scans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* const errors = reinterpret_cast<JpegErrors*>(info->err);
  std::snprintf(errors->text.data(), errors->text.size(), "more than %d scans", kMaxScans);
  std::longjmp(errors->back, 1);
}

void say_nothing(j_common_ptr) {}

void prepare(JpegErrors& errors) {
  jpeg_std_error(&errors.manager);
  errors.manager.error_exit = leave_libjpeg;
  errors.manager.emit_message = judge_warning;
  errors.manager.output_message = say_nothing;
}

const unsigned char* bytes_of(std::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

bool within_limits(const jpeg_decompress_struct& info) {
  return info.image_width > 0 && info.image_height > 0 && info.image_width <= kMaxImageSide &&
         info.image_height <= kMaxImageSide &&
         std::size_t{info.image_width} * info.image_height <= kMaxImagePixels;
}

std::string damaged(const JpegErrors& errors, const jpeg_decompress_struct& info,
                    std::size_t size) {
  const std::size_t left = info.src != nullptr ? std::min(info.src->bytes_in_buffer, size) : size;
  return "JPEG: damaged at byte " + std::to_string(size - left) + " of " + std::to_string(size) +
         ": " + errors.text.data();
}

std::string too_large(const jpeg_decompress_struct& info) {
  return "JPEG: " + std::to_string(info.image_width) + "x" + std::to_string(info.image_height) +
         " pixels are too many";
}

// The eighths to which the transform can reduce the image at once.
unsigned eighths(const jpeg_decompress_struct& info, const DecodeOptions& options) {
  if (options.least_rows == 0 || options.least_columns == 0) return 8;
  // The others are slower than no reduction: libjpeg-turbo has no vectors for them.
  for (const unsigned part : {1U, 2U, 4U}) {
    const auto reduced = [&](std::size_t side) { return (side * part + 7) / 8; };
    if (reduced(info.image_height) >= options.least_rows &&
        reduced(info.image_width) >= options.least_columns)
      return part;
  }
  return 8;
}

// Neighbours' colours are mixed at the edges of what is decoded, and who scales it mixes once more.
constexpr std::size_t kEdgePixels = 4;

struct Range {
  JDIMENSION begin;
  JDIMENSION end;
};

// The lines or columns, of `limit` of the decoded image, that `count` of the file's from `begin` on
// become.
Range decoded_range(std::size_t begin, std::size_t count, unsigned eighths, JDIMENSION limit) {
  if (count == 0) return {0, limit};
  const std::size_t first = begin * eighths / 8;
  const std::size_t last = ((begin + count) * eighths + 7) / 8 + kEdgePixels;
  if (first >= limit) return {0, limit};  // not a part of this image
  return {static_cast<JDIMENSION>(first > kEdgePixels ? first - kEdgePixels : 0),
          static_cast<JDIMENSION>(std::min<std::size_t>(last, limit))};
}

// Photoshop's files have the inks the other way round, and say so by the marker that makes libjpeg
// see Adobe.
void to_rgb(const std::uint8_t* inks, std::size_t pixels, bool inverted, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i, inks += 4)
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned ink = inverted ? inks[c] : 255U - inks[c];
      const unsigned black = inverted ? inks[3] : 255U - inks[3];
      *rgb++ = static_cast<std::uint8_t>(ink * black / 255);
    }
}

// Owned by the caller of setjmp, so that a jump finds them again.
struct Decoder {
  jpeg_decompress_struct info{};
  JpegErrors errors{};
  jpeg_progress_mgr progress{};
  DecodedPart* part = nullptr;     // where to
  std::vector<std::uint8_t> inks;  // of one line
  bool refused = false;            // for its size
};

// No object with a destructor is made in here: a jump passes over none.
// NOLINTNEXTLINE(cert-err52-cpp): the library's only way to report an error
bool decode_all(Decoder& decoder, std::string_view bytes, const DecodeOptions& options) {
  jpeg_decompress_struct& info = decoder.info;
  if (setjmp(decoder.errors.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&info);
  decoder.progress.progress_monitor = limit_scans;
  info.progress = &decoder.progress;
  jpeg_mem_src(&info, bytes_of(bytes), bytes.size());
  jpeg_read_header(&info, TRUE);
  if (!within_limits(info)) {
    decoder.refused = true;
    return false;
  }
  const bool inks = info.num_components == 4;
  info.out_color_space = inks ? JCS_CMYK : JCS_RGB;
  info.dct_method = options.dct == DctMethod::fast ? JDCT_IFAST : JDCT_ISLOW;
  info.do_fancy_upsampling = options.dct == DctMethod::fast ? FALSE : TRUE;
  info.scale_num = eighths(info, options);
  info.scale_denom = 8;
  jpeg_start_decompress(&info);
  DecodedPart& part = *decoder.part;
  part.whole = {info.output_height, info.output_width};
  const Window& window = options.window;
  const Range lines = decoded_range(window.top, window.rows, info.scale_num, info.output_height);
  const Range columns =
      decoded_range(window.left, window.columns, info.scale_num, info.output_width);
  // libjpeg widens this to whole blocks.
  JDIMENSION left = columns.begin;
  JDIMENSION width = columns.end - columns.begin;
  if (width < info.output_width) jpeg_crop_scanline(&info, &left, &width);
  if (lines.begin > 0) jpeg_skip_scanlines(&info, lines.begin);
  part.top = lines.begin;
  part.left = left;
  Image& image = part.image;
  image.rows = lines.end - lines.begin;
  image.columns = width;
  image.pixels.resize(image.rows * image.columns * 3);
  if (inks) decoder.inks.resize(image.columns * 4);
  while (info.output_scanline < lines.end) {
    std::uint8_t* const row =
        image.pixels.data() + std::size_t{info.output_scanline - lines.begin} * image.columns * 3;
    JSAMPROW target = inks ? decoder.inks.data() : row;
    jpeg_read_scanlines(&info, &target, 1);
    if (inks) to_rgb(decoder.inks.data(), image.columns, info.saw_Adobe_marker != 0, row);
  }
  // Otherwise the rest of the file is left alone: its owner destroys the decompressor.
  if (info.output_scanline == info.output_height) jpeg_finish_decompress(&info);
  return true;
}

// NOLINTNEXTLINE(cert-err52-cpp)
bool read_header(Decoder& decoder, std::string_view bytes) {
  if (setjmp(decoder.errors.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_decompress(&decoder.info);
  jpeg_mem_src(&decoder.info, bytes_of(bytes), bytes.size());
  jpeg_read_header(&decoder.info, TRUE);
  decoder.refused = !within_limits(decoder.info);
  return !decoder.refused;
}

std::string trouble_of(const Decoder& decoder, std::size_t size) {
  return decoder.refused ? too_large(decoder.info) : damaged(decoder.errors, decoder.info, size);
}

struct Encoder {
  jpeg_compress_struct info{};
  JpegErrors errors{};
  unsigned char* memory = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
};

// NOLINTNEXTLINE(cert-err52-cpp)
bool encode_all(Encoder& encoder, const Image& image, int quality) {
  jpeg_compress_struct& info = encoder.info;
  if (setjmp(encoder.errors.back) != 0) return false;  // NOLINT(cert-err52-cpp)
  jpeg_create_compress(&info);
  jpeg_mem_dest(&info, &encoder.memory, &encoder.size);
  info.image_width = static_cast<JDIMENSION>(image.columns);
  info.image_height = static_cast<JDIMENSION>(image.rows);
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < info.image_height) {
    // libjpeg only reads it.
    auto* row = const_cast<std::uint8_t*>(image.pixels.data()) +
                std::size_t{info.next_scanline} * image.columns * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  return true;
}

}  // namespace

bool decode_jpeg(std::string_view bytes, const DecodeOptions& options, DecodedPart& part,
                 std::string& error) {
  Decoder decoder;
  decoder.part = &part;
  prepare(decoder.errors);
  decoder.info.err = &decoder.errors.manager;
  const bool good = decode_all(decoder, bytes, options);
  if (!good) error = trouble_of(decoder, bytes.size());
  jpeg_destroy_decompress(&decoder.info);
  return good;
}

std::optional<ImageSize> jpeg_size(std::string_view bytes, std::string& error) {
  Decoder decoder;
  prepare(decoder.errors);
  decoder.info.err = &decoder.errors.manager;
  const bool good = read_header(decoder, bytes);
  if (!good) error = trouble_of(decoder, bytes.size());
  const ImageSize size{decoder.info.image_height, decoder.info.image_width};
  jpeg_destroy_decompress(&decoder.info);
  if (!good) return std::nullopt;
  return size;
}

std::string encode_jpeg(const Image& image, int quality) {
  Encoder encoder;
  prepare(encoder.errors);
  encoder.info.err = &encoder.errors.manager;
  const bool good = encode_all(encoder, image, quality);
  jpeg_destroy_compress(&encoder.info);
  std::string bytes;
  if (good) bytes.assign(reinterpret_cast<const char*>(encoder.memory), encoder.size);
  std::free(encoder.memory);
  if (!good) throw std::runtime_error(std::string("JPEG: ") + encoder.errors.text.data());
  return bytes;
}

}  // namespace hvdrun
