// A timeline's way to the agent: what an AgentConnection does beside its requests.
#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "worker/hvd/client/agent_connection.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTimelinePause{200};
// Bytes on their way to the agent from which on it is behind.
constexpr std::size_t kTimelineAhead = 256U << 10;

}  // namespace

void AgentConnection::set_timeline(TimelineSource source) {
  const MutexLock lock(timeline_mutex_);
  timeline_ = std::move(source);
}

void AgentConnection::timeline_ready(bool at_once) noexcept {
  if (at_once) {
    timeline_ready_.store(Ready::at_once);
  } else {
    Ready expected = Ready::no;
    timeline_ready_.compare_exchange_strong(expected, Ready::soon);
  }
  wake();
}

void AgentConnection::start_timeline(std::uint32_t session, std::string path) noexcept {
  control_timeline({0, session, true, std::move(path)});
}

void AgentConnection::stop_timeline(std::uint32_t session) noexcept {
  flush_timeline();
  control_timeline({0, session, false, {}});
}

void AgentConnection::control_timeline(TimelineControl control) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (lost_ || !is_joined_) return;
    session_.timeline(std::move(control));
    flushed_ = false;
    wake();
  } catch (const std::exception&) {
    return;  // out of memory: the file ends with the job
  }
}

void AgentConnection::flush_timeline() noexcept {
  try {
    take_timeline(false, 0);
  } catch (const std::exception&) {
    return;  // out of memory: the last events are missing
  }
}

bool AgentConnection::take_timeline(bool patiently, std::size_t unsent) {
  const MutexLock source_lock(timeline_mutex_);
  if (!timeline_) return true;
  for (;;) {
    if (patiently) {
      const MutexLock lock(mutex_);
      if (unsent + session_.waiting_output() > kTimelineAhead) return false;
    }
    std::optional<TimelineBatch> batch = timeline_();
    if (!batch) return true;
    const MutexLock lock(mutex_);
    if (lost_ || !is_joined_) return true;
    session_.timeline(*std::move(batch));
    flushed_ = false;
  }
}

// On the I/O thread. Nothing is taken before it is due, so that a batch is worth its message.
void AgentConnection::look_after_timeline(std::size_t unsent) {
  const auto now = steady_clock::now();
  switch (timeline_ready_.exchange(Ready::no)) {
    case Ready::no:
      break;
    case Ready::soon:
      if (!timeline_due_) timeline_due_ = now + kTimelinePause;
      break;
    case Ready::at_once:
      timeline_due_ = now;
      break;
  }
  if (!timeline_due_ || now < *timeline_due_) return;
  timeline_due_.reset();
  if (!take_timeline(true, unsent)) timeline_due_ = now + kTimelinePause;
}

int AgentConnection::poll_timeout() const {
  if (!timeline_due_) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*timeline_due_ - steady_clock::now());
  return static_cast<int>(std::clamp(left, milliseconds(0), kTimelinePause).count());
}

}  // namespace hvdrun
