// A reason to give up for who is making a communicator: there is none yet that could be aborted.
// raise() may come from any thread; one thread waits. Once closed it tells nothing any more, and
// costs who asks the look at a flag.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <poll.h>
#include <sys/eventfd.h>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

class AbortSignal {
 public:
  AbortSignal() : event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  // The first reason counts.
  void raise(const hvd::Error& reason) HVD_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (!reason_) reason_ = reason;
    }
    ::eventfd_write(event_.get(), 1);
  }
  std::optional<hvd::Error> reason() const HVD_EXCLUDES(mutex_) {
    if (closed_.load(std::memory_order_acquire)) return std::nullopt;
    const MutexLock lock(mutex_);
    return reason_;
  }
  // Waits for it.
  std::optional<hvd::Error> await_reason(std::chrono::milliseconds limit) const {
    pollfd wait{event_.get(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(limit.count()));
    return reason();
  }
  void close() { closed_.store(true, std::memory_order_release); }
  // Readable from raise() on; -1 once closed.
  int fd() const { return closed_.load(std::memory_order_acquire) ? -1 : event_.get(); }

 private:
  std::atomic<bool> closed_{false};
  const UniqueFd event_;
  mutable Mutex mutex_;
  std::optional<hvd::Error> reason_ HVD_GUARDED_BY(mutex_);
};

}  // namespace hvdrun
