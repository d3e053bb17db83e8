#include "worker/hvd/gpu/watch.h"

#include <algorithm>
#include <utility>

#include "worker/hvd/client/quiet_thread.h"

namespace hvdrun {

using std::chrono::steady_clock;

GpuWatch::GpuWatch(OnTrouble on_trouble, std::chrono::milliseconds every,
                   std::chrono::milliseconds quiet)
    : on_trouble_(std::move(on_trouble)),
      every_(every),
      quiet_(quiet),
      thread_(quiet_thread([this] { run(); })) {}

GpuWatch::~GpuWatch() {
  {
    const MutexLock lock(request_mutex_);
    stop_ = true;
    requested_.notify_all();
  }
  thread_.join();
}

void GpuWatch::add(NcclCommunicator& communicator) {
  {
    const MutexLock lock(mutex_);
    communicators_.push_back(&communicator);
    communicator.on_queued([this] { wake(); });
  }
  const MutexLock lock(request_mutex_);
  added_ = true;
  requested_.notify_all();
}

void GpuWatch::abort(const hvd::Error& reason) {
  const MutexLock lock(request_mutex_);
  if (!abort_) abort_ = reason;
  requested_.notify_all();
}

void GpuWatch::fail_all(const hvd::Error& reason) {
  const MutexLock lock(mutex_);
  NcclCommunicator::begin_aborts(communicators_, reason);
}

void GpuWatch::end_at_exit() {
  const MutexLock lock(mutex_);
  std::vector<NcclCommunicator*> busy;
  for (NcclCommunicator* const communicator : communicators_)
    if (communicator->holds_up_exit()) busy.push_back(communicator);
  NcclCommunicator::wait_for_aborts(NcclCommunicator::begin_aborts(
      busy, {hvd::ErrorCode::not_initialized, "the process is about to end (exit)"}));
}

void GpuWatch::remove(NcclCommunicator& communicator) {
  const MutexLock lock(mutex_);
  communicator.on_queued({});
  std::erase(communicators_, &communicator);
}

void GpuWatch::tell_times() {
  const MutexLock lock(mutex_);
  for (NcclCommunicator* communicator : communicators_) communicator->tell_times();
}

void GpuWatch::wake() {
  if (!asleep_) return;
  const MutexLock lock(request_mutex_);
  added_ = true;
  requested_.notify_all();
}

void GpuWatch::run() {
  auto last_busy = steady_clock::now();
  while (true) {
    const auto next = steady_clock::now() + every_;
    if (!asleep_ && next - last_busy > quiet_) {
      asleep_ = true;
      // The operations that were queued before have woken nobody.
      if (look_after({})) {
        asleep_ = false;
        last_busy = steady_clock::now();
      }
    }
    std::optional<hvd::Error> reason;
    {
      const MutexLock lock(request_mutex_);
      while (!stop_ && !abort_ && !added_) {
        if (asleep_)
          requested_.wait(request_mutex_);
        else if (!requested_.wait_until(request_mutex_, next))
          break;
      }
      if (stop_) return;
      reason = std::exchange(abort_, std::nullopt);
      if (std::exchange(added_, false)) {
        asleep_ = false;
        last_busy = steady_clock::now();
      }
    }
    if (look_after(reason)) last_busy = steady_clock::now();
  }
}

bool GpuWatch::look_after(const std::optional<hvd::Error>& reason) {
  const MutexLock lock(mutex_);
  if (reason)
    NcclCommunicator::wait_for_aborts(NcclCommunicator::begin_aborts(communicators_, *reason));
  const auto now = steady_clock::now();
  for (NcclCommunicator* communicator : communicators_) {
    const auto error = communicator->look(now);
    // A call may have failed meanwhile, and told it: a peer's end, say, is the echo of that then.
    if (!error || !communicator->set_failure(*error)) continue;
    // One of them may wait for what is queued behind another's kernel: none can go on.
    const auto aborts = NcclCommunicator::begin_aborts(communicators_, *error);
    // The other ranks need not wait for NCCL to be done with it.
    if (on_trouble_) on_trouble_(*error);
    NcclCommunicator::wait_for_aborts(aborts);
    break;
  }
  return std::any_of(communicators_.begin(), communicators_.end(),
                     [](NcclCommunicator* communicator) { return communicator->is_busy(); });
}

}  // namespace hvdrun
