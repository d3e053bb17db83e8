// The fence: a barrier of all ranks that carries one small blob from rank 0 to everybody. Fences
// of an epoch are numbered from 0 and happen one after the other. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/error.h"
#include "common/wire/messages.h"

namespace hvdrun {

class Fence {
 public:
  // For a new epoch of all slots 0 to size - 1.
  explicit Fence(std::uint32_t size = 0)
      : inside_(size, false), members_(size, true), needed_(size) {}
  // A fence of these slots alone, by rank: the first one's blob goes to everybody.
  Fence(std::uint32_t size, const std::vector<std::uint32_t>& members);

  // Ranks, by their slots, enter. The last one's release is returned, and the next fence begins.
  // malformed: a slot that is no member or already inside, a blob not from rank 0 or too large;
  // wrong_epoch: not the current fence.
  std::optional<FenceRelease> enter(const FenceEnter& message, Errc& fault);

  // The rank waits no longer: its line ended, or it was told that the fence has failed. It may
  // enter again.
  void withdraw(std::uint32_t rank);
  void withdraw_all();

  std::uint32_t number() const { return number_; }
  std::uint32_t count() const { return count_; }
  bool is_inside(std::uint32_t rank) const { return rank < inside_.size() && inside_[rank]; }
  // The ranks that are inside, and those that are not, in order.
  std::vector<std::uint32_t> waiting() const { return ranks_that_are(true); }
  std::vector<std::uint32_t> missing() const { return ranks_that_are(false); }

 private:
  std::vector<std::uint32_t> ranks_that_are(bool inside) const;

  std::vector<bool> inside_;
  std::vector<bool> members_;
  std::uint32_t needed_ = 0;
  std::uint32_t root_ = 0;  // the slot of rank 0
  std::uint32_t number_ = 0;
  std::uint32_t count_ = 0;
  std::string blob_;
};

}  // namespace hvdrun
