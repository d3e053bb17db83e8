#include "worker/labs/base/text_columns.h"

#include <algorithm>

namespace hvdrun {
namespace {

// A character of more than one byte has one first byte.
bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }

std::string blanks_for(const std::string& text, std::size_t width) {
  std::string blanks;
  blanks.resize(width - std::min(width, columns_of(text)), ' ');
  return blanks;
}

}  // namespace

std::size_t columns_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string cut_to(const std::string& text, std::size_t width) {
  if (columns_of(text) <= width) return text;
  const std::size_t dots = std::min<std::size_t>(2, width);
  std::size_t left = width - dots;
  std::size_t end = 0;
  for (; end < text.size(); ++end) {
    if (!begins_character(text[end])) continue;
    if (left == 0) break;
    --left;
  }
  return text.substr(0, end) + std::string(dots, '.');
}

std::string left_aligned(const std::string& text, std::size_t width) {
  return text + blanks_for(text, width);
}

std::string right_aligned(const std::string& text, std::size_t width) {
  return blanks_for(text, width) + text;
}

}  // namespace hvdrun
