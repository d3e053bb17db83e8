#include "coordinator/fence.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"

namespace hvdrun {

Fence::Fence(std::uint32_t size, const std::vector<std::uint32_t>& members)
    : inside_(size, false),
      members_(size, false),
      needed_(static_cast<std::uint32_t>(members.size())),
      root_(members.empty() ? 0 : members.front()) {
  for (const std::uint32_t slot : members) members_[slot] = true;
}

std::optional<FenceRelease> Fence::enter(const FenceEnter& message, Errc& fault) {
  fault = Errc::ok;
  const bool has_root = std::count(message.ranks.begin(), message.ranks.end(), root_) == 1;
  if (message.fence != number_) {
    fault = Errc::wrong_epoch;
  } else if (message.blob.size() > limits::kMaxFenceBlob || (!message.blob.empty() && !has_root)) {
    fault = Errc::malformed;
  }
  if (fault != Errc::ok) return std::nullopt;
  for (const std::uint32_t rank : message.ranks) {
    if (rank >= inside_.size() || !members_[rank] || inside_[rank]) {
      fault = Errc::malformed;
      return std::nullopt;
    }
    inside_[rank] = true;
    ++count_;
  }
  if (has_root) blob_ = message.blob;
  if (count_ < needed_) return std::nullopt;
  FenceRelease release{number_, std::exchange(blob_, {})};
  ++number_;
  withdraw_all();
  return release;
}

void Fence::withdraw(std::uint32_t rank) {
  if (!is_inside(rank)) return;
  inside_[rank] = false;
  --count_;
  if (rank == root_) blob_.clear();
}

void Fence::withdraw_all() {
  inside_.assign(inside_.size(), false);
  count_ = 0;
  blob_.clear();
}

std::vector<std::uint32_t> Fence::ranks_that_are(bool inside) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < inside_.size(); ++rank)
    if (members_[rank] && inside_[rank] == inside) ranks.push_back(rank);
  return ranks;
}

}  // namespace hvdrun
