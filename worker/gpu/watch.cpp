#include "worker/gpu/watch.h"

#include <utility>

#include "worker/client/quiet_thread.h"

namespace hvdrun {

using std::chrono::steady_clock;

GpuWatch::GpuWatch(OnTrouble on_trouble, std::chrono::milliseconds every)
    : on_trouble_(std::move(on_trouble)), every_(every), thread_(quiet_thread([this] { run(); })) {}

GpuWatch::~GpuWatch() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void GpuWatch::add(NcclCommunicator& communicator) {
  const MutexLock lock(mutex_);
  communicators_.push_back(&communicator);
  changed_.notify_all();
}

void GpuWatch::abort(const hvd::Error& reason) {
  const MutexLock lock(mutex_);
  if (!abort_) abort_ = reason;
  changed_.notify_all();
}

void GpuWatch::remove(NcclCommunicator& communicator) {
  const MutexLock lock(mutex_);
  std::erase(communicators_, &communicator);
}

void GpuWatch::run() {
  const MutexLock lock(mutex_);
  while (!stop_) {
    if (abort_) {
      const hvd::Error reason = *abort_;
      abort_.reset();
      NcclCommunicator::abort_all(communicators_, reason);
    }
    if (communicators_.empty()) {
      changed_.wait(mutex_);
      continue;
    }
    const auto now = steady_clock::now();
    for (NcclCommunicator* communicator : communicators_) {
      const auto error = communicator->look(now);
      if (!error) continue;
      // What one of them waits for may be queued behind another's kernel: none can go on.
      NcclCommunicator::abort_all(communicators_, *error);
      if (on_trouble_) on_trouble_(*error);
      break;
    }
    changed_.wait_until(mutex_, now + every_);
  }
}

}  // namespace hvdrun
