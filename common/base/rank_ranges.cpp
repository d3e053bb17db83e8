#include "common/base/rank_ranges.h"

namespace hvdrun {

std::string rank_ranges(const std::vector<std::uint32_t>& ranks, std::size_t at_most) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    if (at_most-- == 0) return text + " and " + std::to_string(ranks.size() - i) + " more";
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i < 3) end = i + 1;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += "-" + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace hvdrun
