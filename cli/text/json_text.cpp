#include "cli/text/json_text.h"

#include <algorithm>
#include <cstdint>

namespace hvdrun {
namespace {

// The bytes of the UTF-8 character that `text` begins with; 0: it is none.
std::size_t utf8_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::size_t size = byte(0) < 0x80                       ? 1
                           : byte(0) >= 0xc2 && byte(0) < 0xe0  ? 2
                           : byte(0) >= 0xe0 && byte(0) < 0xf0  ? 3
                           : byte(0) >= 0xf0 && byte(0) <= 0xf4 ? 4
                                                                : 0;
  if (size > text.size()) return 0;
  for (std::size_t i = 1; i < size; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  // Overlong forms, surrogates, and what lies above U+10FFFF.
  if (size > 1 && ((byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xed && byte(1) >= 0xa0) ||
                   (byte(0) == 0xf0 && byte(1) < 0x90) || (byte(0) == 0xf4 && byte(1) >= 0x90)))
    return 0;
  return size;
}

}  // namespace

std::string json_quoted(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result = "\"";
  while (!text.empty()) {
    const std::size_t size = utf8_size(text);
    const auto first = static_cast<std::uint8_t>(text.front());
    if (size == 0) {
      result += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      result += {'\\', text.front()};
    } else if (first < 0x20) {
      result += "\\u00";
      result += {kDigits[first >> 4U], kDigits[first & 15U]};
    } else {
      result += text.substr(0, size);
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result + "\"";
}

}  // namespace hvdrun
