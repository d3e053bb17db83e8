// A mutex, its scoped lock and its condition variable with clang's thread-safety annotations
// (-Wthread-safety): the standard ones carry none under libstdc++. Header only; common use is
//
//   Mutex mutex_;
//   int value_ HVD_GUARDED_BY(mutex_) = 0;
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define HVD_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HVD_THREAD_ATTRIBUTE(x)
#endif
#define HVD_GUARDED_BY(x) HVD_THREAD_ATTRIBUTE(guarded_by(x))
#define HVD_REQUIRES(x) HVD_THREAD_ATTRIBUTE(requires_capability(x))
#define HVD_EXCLUDES(...) HVD_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace hvdrun {

class HVD_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() HVD_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() HVD_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class HVD_THREAD_ATTRIBUTE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) HVD_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() HVD_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits return at any time; the caller looks at its condition again.
class CondVar {
 public:
  void wait(Mutex& mutex) HVD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when the deadline has passed.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point deadline)
      HVD_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace hvdrun
