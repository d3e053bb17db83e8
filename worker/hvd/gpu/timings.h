// When the GPU began and ended operations of a communicator, for who wants to know it (a timeline).
// Nobody waits for that: events stand around an operation on its stream, and whoever looks after
// the communicator sees later that they have come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "common/base/mutex.h"
#include "worker/hvd/gpu/events.h"
#include "worker/hvd/gpu/gpu_clock.h"

namespace hvdrun {

// Nanoseconds of the steady clock; told late, in the order of the operations.
class GpuSpan {
 public:
  GpuSpan() = default;
  GpuSpan(const GpuSpan&) = delete;
  GpuSpan& operator=(const GpuSpan&) = delete;
  virtual ~GpuSpan() = default;
  virtual void began(std::uint64_t time) noexcept = 0;
  virtual void ended(std::uint64_t time) noexcept = 0;
};

class GpuTimings {
 public:
  // `device` must outlive this.
  explicit GpuTimings(const GpuDevice& device) : device_(device), events_(device, true) {}
  GpuTimings(const GpuTimings&) = delete;
  GpuTimings& operator=(const GpuTimings&) = delete;
  ~GpuTimings();

  // Around an operation on a stream, always the same one; not of graphs. The device must be
  // current. Throws Error(unavailable).
  void begin(cuda::Stream stream, std::shared_ptr<GpuSpan> span) HVD_EXCLUDES(mutex_);
  void end(cuda::Stream stream) HVD_EXCLUDES(mutex_);
  // Tells of what has begun or ended by now. Waits for no operation. Any thread.
  void tell() noexcept HVD_EXCLUDES(telling_, mutex_);
  // True: tell() has more to say, now or later: the clocks may not have been compared yet.
  bool has_untold() const HVD_EXCLUDES(mutex_);

 private:
  struct Timed {
    cuda::Event begin = nullptr;
    cuda::Event end = nullptr;  // null while it is being queued
    std::shared_ptr<GpuSpan> span;
    bool begun = false;  // has been told
  };
  // Operations under way; of what comes beyond nothing is told.
  static constexpr std::size_t kMost = 4096;

  bool has_come(cuda::Event event) const;

  const GpuDevice& device_;
  GpuEvents events_;
  bool open_ = false;  // between begin() and end()
  Mutex telling_;      // held by the one who tells, through looks at the GPU
  std::unique_ptr<GpuClock> clock_ HVD_GUARDED_BY(telling_);
  mutable Mutex mutex_;  // held for a moment only
  std::deque<Timed> timed_ HVD_GUARDED_BY(mutex_);
  bool broken_ HVD_GUARDED_BY(mutex_) = false;  // the GPU answers with errors
};

}  // namespace hvdrun
