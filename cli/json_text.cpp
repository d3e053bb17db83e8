#include "cli/json_text.h"

#include <cstddef>
#include <cstdio>

namespace hvdrun {
namespace {

// The length of the UTF-8 sequence at the front; 0 when there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0  // a continuation, or an overlong form
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  if (first == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
  if (first == 0xED && byte(1) >= 0xA0) return 0;  // surrogates
  if (first == 0xF0 && byte(1) < 0x90) return 0;   // overlong
  if (first == 0xF4 && byte(1) >= 0x90) return 0;  // past U+10FFFF
  return length;
}

}  // namespace

std::string json_string(std::string_view bytes) {
  std::string text = "\"";
  while (!bytes.empty()) {
    const std::size_t length = sequence_length(bytes);
    if (length == 0) {
      text += "\\ufffd";
      bytes.remove_prefix(1);
      continue;
    }
    const char c = bytes.front();
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (length == 1 && static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned>(c));
      text += escape;
    } else {
      text += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return text + '"';
}

}  // namespace hvdrun
