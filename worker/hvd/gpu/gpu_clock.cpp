#include "worker/hvd/gpu/gpu_clock.h"

#include <cmath>
#include <optional>
#include <utility>

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {

GpuClock::GpuClock(const GpuDevice& device)
    : device_(device), stream_(device), events_(device, true) {}

GpuClock::~GpuClock() {
  if (reference_ != nullptr) events_.give(reference_);
  if (late_ != nullptr) events_.give(late_);
}

bool GpuClock::compare() {
  const cuda::Api& api = device_.api();
  if (Clock::now() - tried_ < kEvery) return reference_ != nullptr;
  tried_ = Clock::now();
  if (late_ != nullptr) {
    // More of them would fill the queue of a GPU that hangs, and then block.
    if (!stream_.has_ended(late_)) return reference_ != nullptr;
    events_.give(std::exchange(late_, nullptr));
  }
  std::optional<Clock::duration> best;
  for (int turn = 0; turn < kTries && late_ == nullptr; ++turn) {
    cuda::Event event = events_.take();
    const Clock::time_point before = Clock::now();
    bool came = false;
    try {
      check_cuda(api, api.event_record(event, stream_.get()), device_.words() + ": cuEventRecord");
      while (!came && Clock::now() - before < kPatience) came = stream_.has_ended(event);
    } catch (const hvd::Error&) {
      events_.give(event);
      throw;
    }
    const Clock::duration width = Clock::now() - before;
    // It came somewhere between the two looks at the host's clock.
    if (came && (!best || width < *best)) {
      best = width;
      std::swap(reference_, event);
      reference_time_ = before + width / 2;
    }
    if (!came)
      late_ = event;
    else if (event != nullptr)
      events_.give(event);
  }
  return reference_ != nullptr;
}

std::uint64_t GpuClock::time_of(cuda::Event event) const {
  float milliseconds = 0;
  check_cuda(device_.api(), device_.api().event_elapsed(&milliseconds, reference_, event),
             device_.words() + ": cuEventElapsedTime");
  const auto reference =
      std::chrono::duration_cast<std::chrono::nanoseconds>(reference_time_.time_since_epoch());
  return static_cast<std::uint64_t>(reference.count() +
                                    std::llround(static_cast<double>(milliseconds) * 1e6));
}

}  // namespace hvdrun
