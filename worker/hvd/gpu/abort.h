// The end of a communicator by force, which takes NCCL a moment, or hangs: on a thread that may
// outlive who waits for it. Any thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "common/base/mutex.h"

namespace hvdrun {

class GpuAbort {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  void end() {
    const MutexLock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  bool has_ended() {
    const MutexLock lock(mutex_);
    return ended_;
  }
  // True: it has ended by then.
  bool wait_until(TimePoint deadline) {
    const MutexLock lock(mutex_);
    while (!ended_)
      if (!changed_.wait_until(mutex_, deadline)) return ended_;
    return true;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ended_ HVD_GUARDED_BY(mutex_) = false;
};

// The aborts of all communicators of a rank, for who has to know whether NCCL is done with them.
class GpuAborts {
 public:
  // NCCL has taken half a second where the ranks were about to connect. Where a graph has captured
  // a part of the communicator, it waits for the end of the graph.
  static constexpr std::chrono::milliseconds kPatience{10'000};

  explicit GpuAborts(std::chrono::milliseconds patience = kPatience) : patience_(patience) {}
  std::chrono::milliseconds patience() const { return patience_; }

  std::shared_ptr<GpuAbort> add() {
    const MutexLock lock(mutex_);
    std::erase_if(aborts_, [](const auto& one) { return one->has_ended(); });
    return aborts_.emplace_back(std::make_shared<GpuAbort>());
  }
  // The number of those that have not ended in the time from now on. An abort may have begun long
  // before: it waits for graphs, until the program comes to give them back.
  std::size_t wait() {
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    std::vector<std::shared_ptr<GpuAbort>> aborts;
    {
      const MutexLock lock(mutex_);
      aborts = aborts_;
    }
    return static_cast<std::size_t>(
        std::count_if(aborts.begin(), aborts.end(),
                      [deadline](const auto& one) { return !one->wait_until(deadline); }));
  }

 private:
  const std::chrono::milliseconds patience_;
  Mutex mutex_;
  std::vector<std::shared_ptr<GpuAbort>> aborts_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvdrun
