#include "worker/labs/data/files/mat_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <stdexcept>
#include <zlib.h>

namespace hvdrun {
namespace {

constexpr std::size_t kHeader = 128;
constexpr std::size_t kVersionAt = 124;
constexpr std::size_t kTag = 8;
constexpr std::uint32_t kMatrix = 14;      // an array: flags, dimensions, name, numbers
constexpr std::uint32_t kCompressed = 15;  // one element, packed with zlib
constexpr std::uint32_t kComplexFlag = 0x0800;
// Classes of an array's numbers: double, single and the integers.
constexpr std::uint32_t kFirstNumbers = 6;
constexpr std::uint32_t kLastNumbers = 15;
constexpr std::size_t kMaxName = 256;

std::uint32_t u32_at(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  return value;
}

template <typename T>
T number_at(std::string_view bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));  // hosts are little-endian
  return value;
}

std::optional<MatType> number_type(std::uint32_t type) {
  switch (type) {
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
    case 9:
    case 12:
    case 13:
      return static_cast<MatType>(type);
    default:
      return std::nullopt;
  }
}

// An element within `bytes`.
struct Element {
  std::uint32_t type = 0;
  std::string_view data;
  std::size_t next = 0;  // where the one behind it begins
};

class MatReader {
 public:
  MatReader(std::string_view name, std::string_view bytes, std::string& error)
      : name_(name), bytes_(bytes), error_(error) {}

  std::optional<std::vector<MatArray>> read() {
    if (!check_header()) return std::nullopt;
    for (std::size_t at = kHeader; at < bytes_.size();) {
      // Elements in the file itself are not padded behind a packed one.
      place_ = at;
      const auto element = element_at(bytes_, at);
      if (!element) return std::nullopt;
      if (++elements_ > kMaxMatArrays) {
        fail("more than " + std::to_string(kMaxMatArrays) + " arrays");
        return std::nullopt;
      }
      if (!read_element(*element)) return std::nullopt;
      at = element->type == kCompressed ? at + kTag + element->data.size() : element->next;
    }
    return std::move(arrays_);
  }

 private:
  bool fail(const std::string& text) {
    error_ = std::string(name_) + ": offset " + std::to_string(place_) + ": " + text;
    return false;
  }

  bool check_header() {
    if (bytes_.size() < kHeader) {
      return fail("a MAT-file has a header of 128 bytes, this file has " +
                  std::to_string(bytes_.size()));
    }
    const auto low = static_cast<std::uint8_t>(bytes_[kVersionAt]);
    const auto high = static_cast<std::uint8_t>(bytes_[kVersionAt + 1]);
    const std::string_view mark = bytes_.substr(kVersionAt + 2, 2);
    place_ = kVersionAt;
    if (mark == "MI")
      return fail("big-endian MAT-files cannot be read; save it again on this machine");
    if (mark == "IM" && high == 2)
      return fail("a MAT-file of version 7.3 (HDF5); save it again with -v7");
    if (mark != "IM" || high != 1 || low != 0) return fail("not a MAT-file of version 5 or 7");
    return true;
  }

  // Sizes are checked against what is there, so no number in the file makes us allocate.
  std::optional<Element> element_at(std::string_view within, std::size_t at) {
    if (within.size() < at || within.size() - at < kTag) {
      fail("an element is cut off");
      return std::nullopt;
    }
    const std::uint32_t word = u32_at(within, at);
    const std::uint32_t small = word >> 16;
    if (small != 0) {  // of four bytes at most, in the tag itself
      if (small > 4) {
        fail("a small element of " + std::to_string(small) + " bytes");
        return std::nullopt;
      }
      return Element{word & 0xffffU, within.substr(at + 4, small), at + kTag};
    }
    const std::size_t size = u32_at(within, at + 4);
    const std::size_t left = within.size() - at - kTag;
    if (size > left) {
      fail("an element of " + std::to_string(size) + " bytes where " + std::to_string(left) +
           " are left");
      return std::nullopt;
    }
    const std::size_t padded = std::min(left, (size + 7) & ~std::size_t{7});
    return Element{word, within.substr(at + kTag, size), at + kTag + padded};
  }

  bool read_element(const Element& element) {
    if (element.type == kMatrix) return read_array(element.data);
    if (element.type != kCompressed) return true;  // numbers outside an array: nobody's
    std::string unpacked;
    if (!unpack(element.data, unpacked)) return false;
    const auto inner = element_at(unpacked, 0);
    if (!inner) return false;
    return inner->type != kMatrix || read_array(inner->data);
  }

  // All of it in pieces: what a stream says of its own size is not believed.
  bool unpack(std::string_view packed, std::string& unpacked) {
    z_stream stream{};
    if (inflateInit(&stream) != Z_OK) throw std::bad_alloc();
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data()));
    stream.avail_in = static_cast<unsigned>(packed.size());  // below 4 GiB: a tag's size
    int code = Z_OK;
    while (code == Z_OK) {
      const std::size_t before = unpacked.size();
      if (unpacked_ + before > kMaxMatBytes) break;
      const std::size_t more =
          std::clamp<std::size_t>(before, std::size_t{1} << 16, std::size_t{1} << 26);
      try {
        unpacked.resize(before + more);
      } catch (...) {
        inflateEnd(&stream);
        throw;
      }
      stream.next_out = reinterpret_cast<Bytef*>(unpacked.data() + before);
      stream.avail_out = static_cast<unsigned>(more);
      code = inflate(&stream, Z_NO_FLUSH);
      unpacked.resize(before + more - stream.avail_out);
    }
    const std::string why = stream.msg == nullptr ? "" : std::string(" (") + stream.msg + ")";
    inflateEnd(&stream);
    unpacked_ += unpacked.size();
    if (code == Z_OK)
      return fail("more than " + std::to_string(kMaxMatBytes >> 30) + " GiB of packed numbers");
    if (code == Z_STREAM_END) return true;
    return fail(code == Z_BUF_ERROR ? "packed numbers end too early"
                                    : "corrupt packed numbers" + why);
  }

  bool read_array(std::string_view data) {
    const auto flags = element_at(data, 0);
    if (!flags) return false;
    if (flags->data.size() < 8) return fail("an array without flags");
    const std::uint32_t word = u32_at(flags->data, 0);
    const std::uint32_t kind = word & 0xffU;
    if (kind < kFirstNumbers || kind > kLastNumbers || (word & kComplexFlag) != 0) return true;

    MatArray array;
    const auto dimensions = element_at(data, flags->next);
    if (!dimensions) return false;
    const std::size_t count = dimensions->data.size() / 4;
    if (dimensions->type != static_cast<std::uint32_t>(MatType::int32) || count < 2 ||
        count > kMaxMatDimensions)
      return fail("an array of " + std::to_string(count) + " dimensions");
    std::uint64_t elements = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t size = u32_at(dimensions->data, 4 * i);
      array.dimensions.push_back(size);
      if (size > std::uint32_t{std::numeric_limits<std::int32_t>::max()})
        return fail("a dimension of " + std::to_string(static_cast<std::int32_t>(size)));
      // No overflow: both are below 2^32.
      elements = elements * size;
      if (elements > kMaxMatBytes) return fail("an array of too many numbers");
    }

    const auto name = element_at(data, dimensions->next);
    if (!name) return false;
    if (name->data.size() > kMaxName) return fail("a name of too many bytes");
    array.name = std::string(name->data);

    const auto numbers = element_at(data, name->next);
    if (!numbers) return false;
    const auto type = number_type(numbers->type);
    if (!type) return fail("numbers of an unknown type " + std::to_string(numbers->type));
    array.type = *type;
    if (numbers->data.size() != elements * element_size(*type)) {
      return fail("an array of " + std::to_string(elements) + " numbers with " +
                  std::to_string(numbers->data.size()) + " bytes");
    }
    array.bytes = std::string(numbers->data);
    arrays_.push_back(std::move(array));
    return true;
  }

  std::string_view name_;
  std::string_view bytes_;
  std::string& error_;
  std::size_t place_ = 0;  // in the file, of the element that is being read
  std::size_t elements_ = 0;
  std::uint64_t unpacked_ = 0;  // bytes so far
  std::vector<MatArray> arrays_;
};

void put_u32(std::string& to, std::uint32_t value) {
  for (int i = 0; i < 4; ++i) to += static_cast<char>(value >> (8 * i) & 0xffU);
}

void put_element(std::string& to, std::uint32_t type, std::string_view data) {
  if (data.size() > std::numeric_limits<std::uint32_t>::max())
    throw std::length_error("MAT-file: an array of more than 4 GiB");
  put_u32(to, type);
  put_u32(to, static_cast<std::uint32_t>(data.size()));
  to.append(data);
  to.append((8 - data.size() % 8) % 8, '\0');
}

// The class that MATLAB has for numbers of this type.
std::uint32_t class_of(MatType type) {
  switch (type) {
    case MatType::real:
      return 6;
    case MatType::single:
      return 7;
    case MatType::int64:
      return 14;
    case MatType::uint64:
      return 15;
    default:
      return static_cast<std::uint32_t>(type) + 7;
  }
}

std::string pack(const std::string& bytes) {
  std::string packed(compressBound(bytes.size()), '\0');
  uLongf size = packed.size();
  if (compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size(),
                Z_DEFAULT_COMPRESSION) != Z_OK)
    throw std::bad_alloc();
  packed.resize(size);
  return packed;
}

}  // namespace

std::size_t element_size(MatType type) {
  switch (type) {
    case MatType::int8:
    case MatType::uint8:
      return 1;
    case MatType::int16:
    case MatType::uint16:
      return 2;
    case MatType::int32:
    case MatType::uint32:
    case MatType::single:
      return 4;
    default:
      return 8;
  }
}

double MatArray::at(std::size_t index) const {
  switch (type) {
    case MatType::int8:
      return number_at<std::int8_t>(bytes, index);
    case MatType::uint8:
      return number_at<std::uint8_t>(bytes, index);
    case MatType::int16:
      return number_at<std::int16_t>(bytes, index);
    case MatType::uint16:
      return number_at<std::uint16_t>(bytes, index);
    case MatType::int32:
      return number_at<std::int32_t>(bytes, index);
    case MatType::uint32:
      return number_at<std::uint32_t>(bytes, index);
    case MatType::single:
      return number_at<float>(bytes, index);
    case MatType::real:
      return number_at<double>(bytes, index);
    case MatType::int64:
      return static_cast<double>(number_at<std::int64_t>(bytes, index));
    case MatType::uint64:
      return static_cast<double>(number_at<std::uint64_t>(bytes, index));
  }
  return 0;
}

std::optional<std::vector<MatArray>> parse_mat(std::string_view name, std::string_view bytes,
                                               std::string& error) {
  return MatReader(name, bytes, error).read();
}

std::string encode_mat(const std::vector<MatArray>& arrays, bool compressed) {
  std::string file = "MATLAB 5.0 MAT-file, written by hvdrun";
  file.resize(kVersionAt, ' ');
  std::fill(file.begin() + 116, file.end(), '\0');  // no data of a subsystem
  file += std::string("\0\1IM", 4);
  for (const MatArray& array : arrays) {
    std::string data;
    std::string flags;
    put_u32(flags, class_of(array.type));
    put_u32(flags, 0);
    put_element(data, static_cast<std::uint32_t>(MatType::uint32), flags);
    std::string dimensions;
    for (const std::uint32_t size : array.dimensions) put_u32(dimensions, size);
    put_element(data, static_cast<std::uint32_t>(MatType::int32), dimensions);
    put_element(data, static_cast<std::uint32_t>(MatType::int8), array.name);
    put_element(data, static_cast<std::uint32_t>(array.type), array.bytes);
    std::string element;
    put_element(element, kMatrix, data);
    if (!compressed) {
      file += element;
      continue;
    }
    const std::string packed = pack(element);
    put_u32(file, kCompressed);
    put_u32(file, static_cast<std::uint32_t>(packed.size()));
    file += packed;
  }
  return file;
}

}  // namespace hvdrun
