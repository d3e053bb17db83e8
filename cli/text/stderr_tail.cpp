#include "cli/text/stderr_tail.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kMaxLines = 12;
constexpr std::size_t kMaxLineBytes = 400;

}  // namespace

void StderrTail::add(std::uint32_t rank, std::string_view bytes) {
  Tail& tail = ranks_[rank];
  while (!bytes.empty()) {
    const std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    const std::size_t room = kMaxLineBytes - std::min(kMaxLineBytes, tail.open.size());
    tail.open.append(bytes.substr(0, std::min(end, room)));
    if (end == bytes.size()) return;
    if (!tail.open.empty()) tail.lines.push_back(std::exchange(tail.open, {}));
    if (tail.lines.size() > kMaxLines) tail.lines.pop_front();
    bytes.remove_prefix(end + 1);
  }
}

std::vector<std::string> StderrTail::lines(std::uint32_t rank) const {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return {};
  std::vector<std::string> lines(found->second.lines.begin(), found->second.lines.end());
  if (!found->second.open.empty()) lines.push_back(found->second.open);
  return lines;
}

}  // namespace hvdrun
