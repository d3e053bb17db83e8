// MATLAB's MAT-files of version 5 (and 7, which packs each array with zlib): a header of 128 bytes,
// then elements of a type, a size and that many bytes.
//
// The parser takes bytes and gives a value or one line that names the file, the offset and what is
// wrong there; it reads no file itself, so every input can be tested. C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline constexpr std::uint64_t kMaxMatBytes = std::uint64_t{2} << 30;  // of a file, and unpacked
inline constexpr std::size_t kMaxMatArrays = 10'000;
inline constexpr std::size_t kMaxMatDimensions = 32;

// The type that an element is stored as: MATLAB keeps whole numbers of any class as the smallest
// type that fits.
enum class MatType : std::uint8_t {
  int8 = 1,
  uint8 = 2,
  int16 = 3,
  uint16 = 4,
  int32 = 5,
  uint32 = 6,
  single = 7,
  real = 9,
  int64 = 12,
  uint64 = 13,
};
std::size_t element_size(MatType type);

// A full array of real numbers.
struct MatArray {
  std::string name;
  std::vector<std::uint32_t> dimensions;  // two or more; the first one runs fastest
  MatType type = MatType::uint8;
  std::string bytes;  // size() elements, little-endian

  std::size_t size() const { return bytes.size() / element_size(type); }
  // Element `index` below size(); 64-bit integers lose what a double cannot hold.
  double at(std::size_t index) const;
};

// The arrays of a file in its order. What is no full real array (text, cells, structures, sparse or
// complex ones) is passed over. `name` stands in front of the error.
std::optional<std::vector<MatArray>> parse_mat(std::string_view name, std::string_view bytes,
                                               std::string& error);

// A file of version 5 with these arrays, each packed with zlib when `compressed`.
std::string encode_mat(const std::vector<MatArray>& arrays, bool compressed);

}  // namespace hvdrun
