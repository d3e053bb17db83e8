#include "cli/output/output_fold.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace hvdrun {
namespace {

// The cost of a line besides its bytes.
constexpr std::size_t kOverhead = 128;
// A line's like is looked for so far behind others' lines.
constexpr std::size_t kDepth = 16;

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
    Line line;
    line.stream = message.stream;
    line.text = bytes.substr(begin, next - begin);
    line.partial = goes_on || !whole;
    line.since = now;
    add_line(message.rank, std::move(line));
    if (!whole) mid_line_.insert(from);
    begin = next;
  }
}

bool OutputFold::mid_line(std::uint32_t rank, OutputStream stream) const {
  return mid_line_.contains(source(rank, stream));
}

void OutputFold::add_line(std::uint32_t rank, Line line) {
  line.hash = std::hash<std::string_view>()(line.text);
  line.number = next_number_++;
  bytes_ += line.text.size() + kOverhead;
  ++like_[line.hash];
  auto& lane = lanes_[rank];
  if (lane.empty()) fronts_.emplace(line.number, rank);
  lane.push_back(std::move(line));
}

bool OutputFold::take(TimePoint now, bool all, FoldedLine& line) {
  if (lanes_.empty()) return false;
  if (!all && bytes_ <= kMaxBytes && now < next_due() && !all_have_it()) return false;
  const std::uint32_t rank = who_is_next();
  const Line front = lanes_.at(rank).front();
  line = {{}, front.stream, front.text, front.partial};
  if (like_.at(front.hash) == 1 || front.partial) {
    line.ranks = {rank};
  } else {
    for (const auto& [other, lane] : lanes_)
      if (lane.front() == front) line.ranks.push_back(other);
  }
  for (const std::uint32_t each : line.ranks) pop(each);
  return true;
}

bool OutputFold::all_have_it() const {
  const Line& line = oldest();
  return lanes_.size() == size_ && like_.at(line.hash) >= size_ &&
         std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const auto& lane) { return lane.second.front() == line; });
}

// The oldest line's rank, unless another has the same line behind lines of its own: those go first,
// so that the two can leave together.
std::uint32_t OutputFold::who_is_next() const {
  const Line& line = oldest();
  if (like_.at(line.hash) > 1) {
    for (const auto& [rank, lane] : lanes_) {
      const auto end = lane.begin() + static_cast<std::ptrdiff_t>(std::min(kDepth, lane.size()));
      const auto like = std::find(lane.begin(), end, line);
      if (like != end && like != lane.begin()) return rank;
    }
  }
  return fronts_.begin()->second;
}

void OutputFold::pop(std::uint32_t rank) {
  const auto lane = lanes_.find(rank);
  const Line& front = lane->second.front();
  bytes_ -= front.text.size() + kOverhead;
  const auto like = like_.find(front.hash);
  if (--like->second == 0) like_.erase(like);
  fronts_.erase({front.number, rank});
  lane->second.pop_front();
  if (lane->second.empty()) {
    lanes_.erase(lane);
  } else {
    fronts_.emplace(lane->second.front().number, rank);
  }
}

}  // namespace hvdrun
