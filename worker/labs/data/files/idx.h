// IDX, the format of the MNIST files: a big-endian header (two zero bytes, element type, number of
// dimensions, one 32-bit size per dimension), then the elements. Plain or gzip.
//
// The parsers take bytes and give a value or one line that names the file and what is wrong with
// it; they read no file themselves, so every input can be tested. C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

// Limits on what a header may announce: MNIST needs 60000 images of 28x28.
inline constexpr std::uint32_t kMaxIdxItems = 10'000'000;
inline constexpr std::uint32_t kMaxIdxSide = 4096;
inline constexpr std::uint64_t kMaxIdxBytes = std::uint64_t{1} << 30;

struct IdxImages {
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::uint8_t> pixels;  // count * rows * columns, row by row

  std::size_t image_size() const { return rows * columns; }
};

// `name` stands in front of the error. Bytes that begin like gzip are unpacked first.
std::optional<IdxImages> parse_idx_images(std::string_view name, std::string_view bytes,
                                          std::string& error);
// Labels over `max_label` are an error.
std::optional<std::vector<std::uint8_t>> parse_idx_labels(std::string_view name,
                                                          std::string_view bytes,
                                                          unsigned max_label, std::string& error);

// The same formats, written.
std::string encode_idx_images(const IdxImages& images);
std::string encode_idx_labels(const std::vector<std::uint8_t>& labels);

}  // namespace hvdrun
