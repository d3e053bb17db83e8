// One image in memory, red, green and blue of a pixel side by side, and files of images that are
// decoded into it: JPEG and PNG.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct Image {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::uint8_t> pixels;  // rows x columns x 3
};

inline constexpr std::size_t kMaxImageSide = 32'768;                  // pixels
inline constexpr std::size_t kMaxImagePixels = std::size_t{1} << 26;  // of one image

// The way libjpeg computes its cosine transform: "fast" with integers of fewer bits.
enum class DctMethod { fast, accurate };

// In pixels of the image as its file has it. Nothing in it: the whole image.
struct Window {
  std::size_t top = 0;
  std::size_t left = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
};

struct DecodeOptions {
  DctMethod dct = DctMethod::accurate;
  // A JPEG is decoded to an eighth, a quarter or half of its size when that still has so many rows
  // and columns: less work, and a better reduction than taking single pixels. 0: as it is.
  std::size_t least_rows = 0;
  std::size_t least_columns = 0;
  // Outside of it a JPEG need not be computed; what is below is not even looked at.
  Window window = {};
};

struct ImageSize {
  std::size_t rows = 0;
  std::size_t columns = 0;
};

// Decodes grey, colour and CMYK JPEGs, baseline and progressive; grey, colour and palette PNGs of
// any depth. The numbers are those that Pillow's convert("RGB") and TensorFlow's decoders give: no
// gamma, profile or other wish of the file for its colours counts, and what is transparent keeps
// its colour. Of 16 bits the upper eight count; there, for grey ones alone, Pillow cuts off what is
// above 255 instead. None, and `error` says what is wrong, for anything else, an image over the
// limits, and one that is damaged or cut off. The text begins with the kind of file, not with its
// name. The whole image, whatever the window. Any thread.
std::optional<Image> decode_image(std::string_view bytes, DecodeOptions options,
                                  std::string& error);

// The decoded part: the window, and perhaps more around it.
struct DecodedPart {
  Image image;
  std::size_t top = 0;  // where the image's first pixel lies in the whole
  std::size_t left = 0;
  ImageSize whole;  // reduced as the part is
};
// As decode_image, but only the options' window, whose pixels are those of the whole image, bit for
// bit. Damage below it is not noticed.
// `part` keeps its memory from one image to the next: new memory for each costs a tenth of the
// work. False: `part` is in an unknown state.
bool decode_part(std::string_view bytes, const DecodeOptions& options, DecodedPart& part,
                 std::string& error);
// The size of the same images, without decoding them.
std::optional<ImageSize> image_size(std::string_view bytes, std::string& error);

// `quality`: 1 to 100. Throws std::runtime_error for an image that libjpeg does not take.
std::string encode_jpeg(const Image& image, int quality);
std::string encode_png(const Image& image);

}  // namespace hvdrun
