#include "cli/text/last_lines.h"

#include <cstddef>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kMaxBytes = 120;

}  // namespace

void LastLines::add(std::uint32_t rank, std::string_view bytes) {
  if (bytes.empty()) return;
  Line& line = lines_[rank];
  const bool goes_on = std::exchange(line.open, bytes.find_last_of("\r\n") != bytes.size() - 1);
  const auto end = bytes.find_last_not_of("\r\n");
  if (end == std::string_view::npos) return;
  bytes = bytes.substr(0, end + 1);
  const auto begin = bytes.find_last_of("\r\n");
  if (begin != std::string_view::npos) bytes.remove_prefix(begin + 1);
  if (!goes_on || begin != std::string_view::npos) line.text.clear();
  line.text += bytes.substr(0, kMaxBytes - line.text.size());
}

std::string LastLines::of(std::uint32_t rank) const {
  const auto line = lines_.find(rank);
  return line == lines_.end() ? std::string() : line->second.text;
}

}  // namespace hvdrun
