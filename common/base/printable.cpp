#include "common/base/printable.h"

#include <cstdint>

namespace hvdrun {

std::string printable(std::string_view text, std::size_t limit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const char c : text.substr(0, limit)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += {kDigits[byte >> 4U], kDigits[byte & 15U]};
    } else {
      result += c;
    }
  }
  return text.size() > limit ? result + "..." : result;
}

std::string quoted_word(std::string_view text) { return "'" + printable(text) + "'"; }

}  // namespace hvdrun
