#include "cli/output/output_queue.h"

#include <algorithm>
#include <utility>

namespace hvdrun {

void OutputQueue::push(OutputItem item) {
  Entry entry{next_number_++, std::move(item)};
  if (entry.item.kind == OutputItem::Kind::notice) {
    notices_.push_back(std::move(entry));
    return;
  }
  const std::uint32_t rank = entry.item.message.rank;
  auto& lane = lanes_[rank];
  if (lane.empty()) turns_.push_back(rank);
  lane.push_back(std::move(entry));
}

bool OutputQueue::notice_is_due() const {
  return !notices_.empty() && std::all_of(lanes_.begin(), lanes_.end(), [this](const auto& lane) {
    return lane.second.front().number > notices_.front().number;
  });
}

std::optional<OutputItem> OutputQueue::pop() {
  if (notice_is_due()) {
    OutputItem item = std::move(notices_.front().item);
    notices_.pop_front();
    return item;
  }
  if (turns_.empty()) return std::nullopt;
  const std::uint32_t rank = turns_.front();
  turns_.pop_front();
  return take(rank);
}

std::optional<OutputItem> OutputQueue::pop_of(std::uint32_t rank) {
  if (!lanes_.contains(rank)) return std::nullopt;
  turns_.erase(std::find(turns_.begin(), turns_.end(), rank));
  return take(rank);
}

OutputItem OutputQueue::take(std::uint32_t rank) {
  const auto lane = lanes_.find(rank);
  OutputItem item = std::move(lane->second.front().item);
  lane->second.pop_front();
  if (lane->second.empty()) {
    lanes_.erase(lane);
  } else {
    turns_.push_back(rank);
  }
  return item;
}

}  // namespace hvdrun
