// The operations under way: entered before they are queued, forgotten when the GPU has ended them.
#include <algorithm>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun {
namespace {

using std::chrono::steady_clock;

// Operations under way. A loop that never waits is held here, far ahead of the GPU.
constexpr std::size_t kMaxPending = 4096;
// Operations of graphs that nobody has waited for yet.
constexpr std::size_t kMaxCaptured = 4096;

}  // namespace

void NcclCommunicator::enter(const Descriptor& what, const GpuCall& call) {
  // It has no time to be done by.
  if (call.captured) {
    throw_if_failed();
    if (on_queued_) on_queued_();
    return;
  }
  const TimePoint now = steady_clock::now();
  const TimePoint deadline = now + call.timeout;
  for (int turn = 0;; turn = std::min(turn + 1, 1000)) {
    throw_if_failed();
    retire();
    {
      const MutexLock lock(mutex_);
      if (pending_.size() < kMaxPending) {
        ++submitted_;
        pending_.push_back({submitted_, what, call.timeout, deadline, nullptr});
        break;
      }
    }
    if (steady_clock::now() >= deadline)
      fail(hvd::Error(hvd::ErrorCode::timeout, who() + ": " + describe(what) + ": " +
                                                   std::to_string(kMaxPending) +
                                                   " operations before it have not ended after " +
                                                   seconds_text(call.timeout)));
    pause(turn);
  }
  if (on_queued_) on_queued_();
}

void NcclCommunicator::tell_times() {
  // An operation that an abort has ended is told no end: it has none.
  if (!failure()) timings_.tell();
}

bool NcclCommunicator::is_busy() {
  const MutexLock lock(mutex_);
  return !failure_ && (!pending_.empty() || captured_count_ > 0 || timings_.has_untold());
}

bool NcclCommunicator::holds_up_exit() {
  if (is_alone() || failure() || handle_->is_empty()) return false;
  {
    // A graph may be running, and a call that waits for other ranks is.
    const MutexLock lock(mutex_);
    if (captured_count_ > 0 || waits_ > 0) return true;
  }
  try {
    const CurrentDevice current(*parts_.device, DriverPass::For::the_end);
    retire();
  } catch (const hvd::Error&) {
    return false;  // CUDA has gone before us
  }
  const MutexLock lock(mutex_);
  return !pending_.empty();
}

void NcclCommunicator::leave(cuda::Event event) {
  const MutexLock lock(mutex_);
  pending_.back().event = event;
}

GpuTicket NcclCommunicator::leave_captured(cuda::Event event) {
  const MutexLock lock(mutex_);
  if (captured_.size() == kMaxCaptured) {
    graph_stream_.recycle(captured_.front().event);
    captured_.pop_front();
  }
  captured_.push_back({kCapturedTicket | ++captured_count_, event});
  return captured_.back().ticket;
}

void NcclCommunicator::retire() {
  const MutexLock lock(mutex_);
  while (!pending_.empty() && pending_.front().event != nullptr &&
         stream_.has_ended(pending_.front().event)) {
    stream_.recycle(pending_.front().event);
    ended_ = pending_.front().ticket;
    pending_.pop_front();
    // Its time begins when nothing of ours is before it any more.
    if (!pending_.empty())
      pending_.front().deadline = steady_clock::now() + pending_.front().timeout;
  }
}

bool NcclCommunicator::has_ended(GpuTicket ticket) {
  throw_if_failed();
  if (ticket >= kCapturedTicket) return true;
  {
    const MutexLock lock(mutex_);
    if (ticket <= ended_) return true;
  }
  const CurrentDevice current(*parts_.device);
  retire();
  // A kernel that an abort has ended counts as ended for the GPU.
  throw_if_failed();
  const MutexLock lock(mutex_);
  return ticket <= ended_;
}

void NcclCommunicator::lead(GpuTicket ticket, cuda::Stream stream) {
  throw_if_failed();
  if (ticket == 0) return;
  const CurrentDevice current(*parts_.device);
  // Held until the wait is queued: a retired event may be recorded anew.
  const MutexLock lock(mutex_);
  if (ticket >= kCapturedTicket) {
    for (const Captured& captured : captured_)
      if (captured.ticket == ticket) return graph_stream_.lead(stream, captured.event);
    throw hvd::Error(hvd::ErrorCode::invalid_argument,
                     who() + ": more than " + std::to_string(kMaxCaptured) +
                         " operations of a graph were submitted before one was waited for");
  }
  if (ticket <= ended_) return;
  for (const Pending& pending : pending_)
    if (pending.ticket == ticket && pending.event != nullptr)
      return stream_.lead(stream, pending.event);
}

void NcclCommunicator::wait(GpuTicket ticket, Milliseconds timeout) {
  const TimePoint deadline = steady_clock::now() + timeout;
  for (int turn = 0; !has_ended(ticket); turn = std::min(turn + 1, 1000)) {
    if (const auto error = look(steady_clock::now())) fail(*error);
    if (steady_clock::now() >= deadline)
      fail(hvd::Error(hvd::ErrorCode::timeout, who() + ": operation " + std::to_string(ticket) +
                                                   " has not ended after " +
                                                   seconds_text(timeout)));
    pause(turn);
  }
}

}  // namespace hvdrun
