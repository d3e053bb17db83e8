#include "cli/text/json_text.h"

#include <algorithm>
#include <cstdint>

#include <boost/locale/utf.hpp>

namespace hvdrun {
namespace {

// The bytes of the UTF-8 character that `text` begins with; 0: it is none.
std::size_t utf8_size(std::string_view text) {
  namespace utf = boost::locale::utf;
  const char* at = text.data();
  // The faults it returns, `illegal` and `incomplete`, are no valid code points.
  const auto point = utf::utf_traits<char>::decode(at, text.data() + text.size());
  return utf::is_valid_codepoint(point) ? static_cast<std::size_t>(at - text.data()) : 0;
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
