// The end of a communicator by force, which takes NCCL a moment, or hangs: on a thread that may
// outlive who waits for it.
#pragma once

#include <chrono>

#include "common/base/mutex.h"

namespace hvdrun {

class GpuAbort {
 public:
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
  bool wait_until(std::chrono::steady_clock::time_point deadline) {
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

}  // namespace hvdrun
