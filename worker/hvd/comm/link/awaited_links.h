// The ranks of other hosts that a LinkSet waits for a connection to, for those who ask meanwhile
// from another thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/mutex.h"

namespace hvdrun {

class AwaitedLinks {
 public:
  void add(std::size_t rank) HVD_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ranks_.push_back(static_cast<std::uint32_t>(rank));
  }
  void made(std::size_t rank) HVD_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    ranks_.erase(std::remove(ranks_.begin(), ranks_.end(), rank), ranks_.end());
  }
  std::vector<std::uint32_t> ranks() HVD_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return ranks_;
  }

 private:
  Mutex mutex_;
  std::vector<std::uint32_t> ranks_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvdrun
