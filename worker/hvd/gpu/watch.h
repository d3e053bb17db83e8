// A thread that looks after a rank's communicators: NCCL tells its later errors only to who asks,
// and waits for missing ranks for ever.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun {

class GpuWatch {
 public:
  using OnTrouble = std::function<void(const hvd::Error&)>;

  // `on_trouble` is told the first error, on the watch's thread, when all communicators have failed
  // and are being aborted. It must not add or remove any. When nothing has been under way for
  // `quiet` the watch sleeps until something is: nothing that could fail would tell anybody.
  explicit GpuWatch(OnTrouble on_trouble = {}, std::chrono::milliseconds every = kEvery,
                    std::chrono::milliseconds quiet = kQuiet);
  GpuWatch(const GpuWatch&) = delete;
  GpuWatch& operator=(const GpuWatch&) = delete;
  ~GpuWatch();

  void add(NcclCommunicator& communicator);
  // Aborts all communicators, soon, on the watch's thread: for one who must not wait, not even for
  // an abort that is under way. Later ones are not touched; on_trouble is not told.
  void abort(const hvd::Error& reason);
  // All communicators fail, and their aborts have begun; waits for nothing but an abort that is
  // under way.
  void fail_all(const hvd::Error& reason);
  // At exit(): aborts those that would hold it up; on the caller's thread.
  void end_at_exit();
  // Before a communicator ends; waits for a look at it that is under way.
  void remove(NcclCommunicator& communicator);

  // The known times of operations are told; on the caller's thread.
  void tell_times();

  static constexpr std::chrono::milliseconds kEvery{50};
  // Longer than a step of most trainings: no step pays for waking the watch.
  static constexpr std::chrono::milliseconds kQuiet{1000};

 private:
  void run();

  // True: something is under way.
  bool look_after(const std::optional<hvd::Error>& reason);
  // For a thread that has queued something.
  void wake();

  OnTrouble on_trouble_;
  std::chrono::milliseconds every_;
  std::chrono::milliseconds quiet_;
  // Nobody looks, as long as nothing is queued. Set before it is looked for the last time.
  std::atomic<bool> asleep_{false};
  // Held while they are looked at or aborted, which may take seconds.
  Mutex mutex_;
  std::vector<NcclCommunicator*> communicators_ HVD_GUARDED_BY(mutex_);
  // The thread's requests; held for a moment only.
  Mutex request_mutex_;
  CondVar requested_;
  std::optional<hvd::Error> abort_ HVD_GUARDED_BY(request_mutex_);
  bool added_ HVD_GUARDED_BY(request_mutex_) = false;
  bool stop_ HVD_GUARDED_BY(request_mutex_) = false;
  std::thread thread_;
};

}  // namespace hvdrun
