#include "cli/output/own_lines.h"

#include <algorithm>
#include <utility>

namespace hvdrun {

std::string OwnLines::offer(std::string_view block, Kind kind) {
  if (kind == Kind::news && (left_out_ > 0 || waiting_ >= limit_)) {
    left_out_ += static_cast<std::uint64_t>(std::count(block.begin(), block.end(), '\n'));
    return {};
  }
  std::string text = take_note();
  text += block;
  waiting_ += text.size();
  return text;
}

std::string OwnLines::gone(std::size_t bytes) {
  waiting_ -= std::min(bytes, waiting_);
  if (waiting_ > limit_ / 2) return {};
  std::string text = take_note();
  waiting_ += text.size();
  return text;
}

std::string OwnLines::take_note() {
  const std::uint64_t count = std::exchange(left_out_, 0);
  return count == 0 ? std::string() : note_(count);
}

}  // namespace hvdrun
