#include "worker/labs/data/files/idx.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "worker/labs/data/files/gzip.h"

namespace hvdrun {
namespace {

constexpr std::uint32_t kImagesMagic = 0x00000803;  // unsigned bytes, 3 dimensions
constexpr std::uint32_t kLabelsMagic = 0x00000801;  // unsigned bytes, 1 dimension
constexpr std::size_t kImagesHeader = 16;
constexpr std::size_t kLabelsHeader = 8;

std::uint32_t read_u32(std::string_view bytes, std::size_t offset) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
  }
  return value;
}

void append_u32(std::string& bytes, std::size_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(value >> shift & 0xff));
  }
}

std::string hex(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

std::string size_text(std::uint64_t rows, std::uint64_t columns) {
  return std::to_string(rows) + "x" + std::to_string(columns);
}

// The bytes of one file, plain, and how many of them there are. A gzip file is unpacked only as far
// as asked, so a small file that unpacks to gigabytes costs nothing.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes), packed_(looks_like_gzip(bytes)) {}

  // Makes the first `size` bytes available (fewer if there are fewer).
  bool need(std::size_t size, std::string& error) {
    if (!packed_) return true;
    const auto result = gunzip(bytes_, size, plain_, error);
    more_ = result == GunzipResult::limit_reached;
    return result != GunzipResult::failed;
  }

  std::string_view bytes() const { return packed_ ? std::string_view(plain_) : bytes_; }
  bool more() const { return more_; }

 private:
  std::string_view bytes_;
  bool packed_;
  bool more_ = false;
  std::string plain_;
};

// Reads the header and checks that exactly the announced elements follow. Sets `error` without the
// file's name.
bool open(Input& input, std::uint32_t magic, std::size_t header, const char* kind,
          std::string& error) {
  if (!input.need(header, error)) return false;
  const std::string_view head = input.bytes();
  if (head.size() >= 4 && read_u32(head, 0) != magic) {
    error = "byte 0: not an IDX file of " + std::string(kind) + " (it begins with " +
            hex(read_u32(head, 0)) + ", not " + hex(magic) + ")";
    return false;
  }
  if (head.size() < header) {
    error = "byte " + std::to_string(head.size()) + ": an IDX header of " + std::to_string(header) +
            " bytes expected, " + std::to_string(head.size()) + " found";
    return false;
  }
  const std::uint32_t count = read_u32(head, 4);
  if (count == 0 || count > kMaxIdxItems) {
    error = "byte 4: the header announces " + std::to_string(count) + " " + kind + ", 1 to " +
            std::to_string(kMaxIdxItems) + " expected";
    return false;
  }
  std::uint64_t expected = header + std::uint64_t{count};
  std::string what = std::to_string(count) + " " + kind;
  if (magic == kImagesMagic) {
    const std::uint32_t rows = read_u32(head, 8);
    const std::uint32_t columns = read_u32(head, 12);
    what += " of " + size_text(rows, columns);
    if (rows == 0 || columns == 0 || rows > kMaxIdxSide || columns > kMaxIdxSide) {
      error = "byte 8: the header announces " + what + ", sides of 1 to " +
              std::to_string(kMaxIdxSide) + " expected";
      return false;
    }
    // At most 1e7 * 2^24: no overflow.
    expected = header + std::uint64_t{count} * rows * columns;
  }
  if (expected > kMaxIdxBytes) {
    error = "byte 4: the header announces " + what + ", which is over the limit of " +
            std::to_string(kMaxIdxBytes) + " bytes";
    return false;
  }
  if (!input.need(static_cast<std::size_t>(expected), error)) return false;
  if (input.bytes().size() != expected || input.more()) {
    const std::uint64_t end = std::min<std::uint64_t>(input.bytes().size(), expected);
    error = "byte " + std::to_string(end) + ": " + std::to_string(expected) +
            " bytes expected for " + what + ", " +
            (input.more() ? "more" : std::to_string(input.bytes().size())) + " found";
    return false;
  }
  return true;
}

}  // namespace

std::optional<IdxImages> parse_idx_images(std::string_view name, std::string_view bytes,
                                          std::string& error) {
  Input input(bytes);
  if (!open(input, kImagesMagic, kImagesHeader, "images", error)) {
    error.insert(0, std::string(name) + ": ");
    return std::nullopt;
  }
  IdxImages images;
  const std::string_view plain = input.bytes();
  images.count = read_u32(plain, 4);
  images.rows = read_u32(plain, 8);
  images.columns = read_u32(plain, 12);
  images.pixels.assign(plain.begin() + kImagesHeader, plain.end());
  return images;
}

std::optional<std::vector<std::uint8_t>> parse_idx_labels(std::string_view name,
                                                          std::string_view bytes,
                                                          unsigned max_label, std::string& error) {
  Input input(bytes);
  if (!open(input, kLabelsMagic, kLabelsHeader, "labels", error)) {
    error.insert(0, std::string(name) + ": ");
    return std::nullopt;
  }
  const std::string_view plain = input.bytes().substr(kLabelsHeader);
  std::vector<std::uint8_t> labels(plain.begin(), plain.end());
  const auto wrong = std::find_if(labels.begin(), labels.end(),
                                  [&](std::uint8_t label) { return label > max_label; });
  if (wrong != labels.end()) {
    error = std::string(name) + ": byte " +
            std::to_string(kLabelsHeader + static_cast<std::size_t>(wrong - labels.begin())) +
            ": label " + std::to_string(*wrong) + ", 0 to " + std::to_string(max_label) +
            " expected";
    return std::nullopt;
  }
  return labels;
}

std::string encode_idx_images(const IdxImages& images) {
  std::string bytes;
  bytes.reserve(kImagesHeader + images.pixels.size());
  append_u32(bytes, kImagesMagic);
  append_u32(bytes, images.count);
  append_u32(bytes, images.rows);
  append_u32(bytes, images.columns);
  bytes.append(images.pixels.begin(), images.pixels.end());
  return bytes;
}

std::string encode_idx_labels(const std::vector<std::uint8_t>& labels) {
  std::string bytes;
  bytes.reserve(kLabelsHeader + labels.size());
  append_u32(bytes, kLabelsMagic);
  append_u32(bytes, labels.size());
  bytes.append(labels.begin(), labels.end());
  return bytes;
}

}  // namespace hvdrun
