// When something came on a GPU, on the host's clock: an event with timing tells only how long after
// another one it came, so there is one of which the host's time is known.
#pragma once

#include <chrono>
#include <cstdint>

#include "worker/hvd/gpu/events.h"
#include "worker/hvd/gpu/stream.h"

namespace hvdrun {

class GpuClock {
 public:
  // `device` must outlive this. Throws Error(unavailable).
  explicit GpuClock(const GpuDevice& device);
  GpuClock(const GpuClock&) = delete;
  GpuClock& operator=(const GpuClock&) = delete;
  ~GpuClock();

  // The device must be current. One thread at a time.
  // Compares the clocks, once a second: waits some ten microseconds for a stream that has nothing
  // else on it, 10 ms at most. False: they never were, and the GPU does not answer now.
  bool compare();
  // The time of an event with timing that has come; after compare(). Nanoseconds of the steady
  // clock.
  std::uint64_t time_of(cuda::Event event) const;

 private:
  using Clock = std::chrono::steady_clock;
  // The clocks drift apart by some ten microseconds in that time.
  static constexpr std::chrono::seconds kEvery{1};
  static constexpr std::chrono::milliseconds kPatience{10};
  static constexpr int kTries = 5;

  const GpuDevice& device_;
  GpuStream stream_;
  GpuEvents events_;
  cuda::Event reference_ = nullptr;  // came at reference_time_
  Clock::time_point reference_time_;
  cuda::Event late_ = nullptr;  // did not come in time
  Clock::time_point tried_;
};

}  // namespace hvdrun
