#include "cli/output_fold.h"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

// What an entry costs besides its bytes.
constexpr std::size_t kOverhead = 256;

}  // namespace

void OutputFold::add(const Output& message, TimePoint now) {
  const std::string_view bytes = message.bytes;
  const std::uint64_t from = source(message.rank, message.stream);
  for (std::size_t begin = 0; begin < bytes.size();) {
    std::size_t end = bytes.find_first_of("\n\r", begin);
    if (end != std::string_view::npos && bytes[end] == '\r' && end + 1 < bytes.size() &&
        bytes[end + 1] == '\n')
      ++end;
    const bool whole = end != std::string_view::npos;
    const std::size_t next = whole ? end + 1 : bytes.size();
    const bool goes_on = mid_line_.erase(from) > 0;
    add_line(message.rank, message.stream, bytes.substr(begin, next - begin), goes_on || !whole,
             now);
    if (!whole) mid_line_.insert(from);
    begin = next;
  }
}

bool OutputFold::mid_line(std::uint32_t rank, OutputStream stream) const {
  return mid_line_.contains(source(rank, stream));
}

void OutputFold::add_line(std::uint32_t rank, OutputStream stream, std::string_view line,
                          bool partial, TimePoint now) {
  std::uint64_t& next = next_of_[rank];
  if (!partial) {
    const auto equal = waiting_.find({stream, line});
    if (equal != waiting_.end()) {
      const auto& numbers = equal->second;
      const auto number = std::lower_bound(numbers.begin(), numbers.end(), next);
      if (number != numbers.end()) {
        auto& ranks = entries_[*number - first_].folded.ranks;
        ranks.insert(std::upper_bound(ranks.begin(), ranks.end(), rank), rank);
        bytes_ += sizeof rank;
        next = *number + 1;
        return;
      }
    }
  }
  const std::uint64_t number = first_ + entries_.size();
  entries_.push_back({{{rank}, stream, std::string(line), partial}, now});
  bytes_ += line.size() + sizeof rank + kOverhead;
  if (!partial) waiting_[{stream, entries_.back().folded.line}].push_back(number);
  next = number + 1;
}

bool OutputFold::take(TimePoint now, bool all, FoldedLine& line) {
  if (entries_.empty()) return false;
  const Entry& front = entries_.front();
  if (!all && bytes_ <= kMaxBytes && now < front.since + kWindow &&
      front.folded.ranks.size() < size_)
    return false;
  bytes_ -=
      front.folded.line.size() + front.folded.ranks.size() * sizeof(std::uint32_t) + kOverhead;
  if (!front.folded.partial) {
    const auto equal = waiting_.find({front.folded.stream, front.folded.line});
    equal->second.pop_front();
    if (equal->second.empty()) {
      waiting_.erase(equal);
    } else {
      // The key's bytes are this entry's, which goes: the next one's take their place.
      auto node = waiting_.extract(equal);
      node.key().line = entries_[node.mapped().front() - first_].folded.line;
      waiting_.insert(std::move(node));
    }
  }
  line = std::move(entries_.front().folded);
  entries_.pop_front();
  ++first_;
  return true;
}

}  // namespace hvdrun
