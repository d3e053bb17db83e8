// Events, used again and again: making one costs the driver more than recording it.
#pragma once

#include <memory>
#include <vector>

#include "common/base/mutex.h"
#include "worker/hvd/gpu/gpu_device.h"

namespace hvdrun {

class GpuEvents {
 public:
  // `device` must outlive this. With `timing` the events can tell when they came.
  explicit GpuEvents(const GpuDevice& device, bool timing = false)
      : device_(device), flags_(timing ? cuda::kEventWithTiming : cuda::kEventDisableTiming) {}
  GpuEvents(const GpuEvents&) = delete;
  GpuEvents& operator=(const GpuEvents&) = delete;
  ~GpuEvents();

  const GpuDevice& device() const { return device_; }
  // The device must be current. Throws Error(unavailable).
  cuda::Event take();
  // A wait for it that has been queued keeps what was recorded.
  void give(cuda::Event event);

 private:
  const GpuDevice& device_;
  const unsigned flags_;
  Mutex mutex_;
  std::vector<cuda::Event> idle_ HVD_GUARDED_BY(mutex_);
};

// The work on a stream when this was made: the event that tells when it has ended.
class GpuMark {
 public:
  // Makes the device current meanwhile. Throws Error(unavailable).
  GpuMark(std::shared_ptr<GpuEvents> events, cuda::Stream stream);
  GpuMark(const GpuMark&) = delete;
  GpuMark& operator=(const GpuMark&) = delete;
  ~GpuMark() { events_->give(event_); }

  cuda::Event event() const { return event_; }
  // Not of one that has become part of a graph. Throws Error(unavailable).
  bool has_come() const;
  // Later work on the stream becomes part of a graph.
  bool captured() const { return captured_; }

 private:
  std::shared_ptr<GpuEvents> events_;
  cuda::Event event_ = nullptr;
  bool captured_ = false;
};

}  // namespace hvdrun
