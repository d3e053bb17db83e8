#include "worker/labs/checkpoint/checked_file.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <zlib.h>

namespace hvdrun {
namespace {

// "HVDCKPT1 " + 16 digits of length + " " + 8 digits of CRC-32 + newline, all in hex.
constexpr std::string_view kMagic = "HVDCKPT1 ";
constexpr std::size_t kTrailer = kMagic.size() + 16 + 1 + 8 + 1;

std::string trailer(std::string_view content) {
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
  std::array<char, kTrailer + 1> text{};
  std::snprintf(text.data(), text.size(), "%s%016llx %08lx\n", kMagic.data(),
                static_cast<unsigned long long>(content.size()), crc);
  return text.data();
}

}  // namespace

std::string add_checksum(std::string_view content) {
  return std::string(content) + trailer(content);
}

std::optional<std::string_view> verify_checksum(std::string_view bytes, std::string& error) {
  const std::size_t size = bytes.size() < kTrailer ? 0 : bytes.size() - kTrailer;
  const std::string_view content = bytes.substr(0, size);
  const std::string_view found = bytes.substr(size);
  if (found.substr(0, kMagic.size()) != kMagic) {
    error = "not a checkpoint of train, or cut short";
    return std::nullopt;
  }
  if (found != trailer(content)) {
    error = "a damaged checkpoint (wrong length or checksum)";
    return std::nullopt;
  }
  return content;
}

}  // namespace hvdrun
