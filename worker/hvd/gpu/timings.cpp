#include "worker/hvd/gpu/timings.h"

#include <optional>
#include <utility>

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {

GpuTimings::~GpuTimings() {
  const MutexLock lock(mutex_);
  for (const Timed& one : timed_) {
    events_.give(one.begin);
    if (one.end != nullptr) events_.give(one.end);
  }
}

void GpuTimings::begin(cuda::Stream stream, std::shared_ptr<GpuSpan> span) {
  {
    const MutexLock lock(mutex_);
    if (timed_.size() == kMost) return;
  }
  cuda::Event event = events_.take();
  const cuda::Result result = device_.api().event_record(event, stream);
  if (result != cuda::kSuccess) events_.give(event);
  check_cuda(device_.api(), result, device_.words() + ": cuEventRecord");
  open_ = true;
  const MutexLock lock(mutex_);
  timed_.push_back({event, nullptr, std::move(span), false});
}

void GpuTimings::end(cuda::Stream stream) {
  if (!std::exchange(open_, false)) return;
  cuda::Event event = events_.take();
  const cuda::Result result = device_.api().event_record(event, stream);
  if (result != cuda::kSuccess) events_.give(event);
  check_cuda(device_.api(), result, device_.words() + ": cuEventRecord");
  const MutexLock lock(mutex_);
  timed_.back().end = event;
}

bool GpuTimings::has_untold() const {
  const MutexLock lock(mutex_);
  return !timed_.empty() && !broken_;
}

bool GpuTimings::has_come(cuda::Event event) const {
  const cuda::Result result = device_.api().event_query(event);
  if (result == cuda::kNotReady) return false;
  check_cuda(device_.api(), result, device_.words());
  return true;
}

void GpuTimings::tell() noexcept {
  const MutexLock one_at_a_time(telling_);
  try {
    std::optional<CurrentDevice> current;
    while (true) {
      Timed first;
      {
        const MutexLock lock(mutex_);
        if (timed_.empty()) return;
        first = timed_.front();
      }
      if (!current) current.emplace(device_);
      if (!has_come(first.begin)) return;
      if (!clock_) clock_ = std::make_unique<GpuClock>(device_);
      if (!clock_->compare()) return;
      if (!first.begun) {
        first.span->began(clock_->time_of(first.begin));
        const MutexLock lock(mutex_);
        timed_.front().begun = true;
      }
      if (first.end == nullptr || !has_come(first.end)) return;
      first.span->ended(clock_->time_of(first.end));
      events_.give(first.begin);
      events_.give(first.end);
      const MutexLock lock(mutex_);
      timed_.pop_front();
    }
  } catch (const std::exception&) {
    // The timeline lacks what a broken GPU does not tell; the operations themselves say it.
    const MutexLock lock(mutex_);
    broken_ = true;
  }
}

}  // namespace hvdrun
