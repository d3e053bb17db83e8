#include "worker/hvd/gpu/events.h"

#include <utility>

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {

GpuEvents::~GpuEvents() {
  const DeviceToFree current(device_);
  if (!current) return;
  const MutexLock lock(mutex_);
  for (cuda::Event event : idle_) device_.api().event_destroy(event);
}

cuda::Event GpuEvents::take() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      cuda::Event event = idle_.back();
      idle_.pop_back();
      return event;
    }
  }
  const cuda::Api& api = device_.api();
  cuda::Event event = nullptr;
  check_cuda(api, api.event_create(&event, flags_), device_.words() + ": cuEventCreate");
  return event;
}

void GpuEvents::give(cuda::Event event) {
  const MutexLock lock(mutex_);
  idle_.push_back(event);
}

GpuMark::GpuMark(std::shared_ptr<GpuEvents> events, cuda::Stream stream)
    : events_(std::move(events)) {
  const GpuDevice& device = events_->device();
  const CurrentDevice current(device);
  int status = cuda::kCaptureNone;
  check_cuda(device.api(), device.api().stream_is_capturing(stream, &status),
             device.words() + ": cuStreamIsCapturing");
  captured_ = status != cuda::kCaptureNone;
  event_ = events_->take();
  const cuda::Result result = device.api().event_record(event_, stream);
  if (result != cuda::kSuccess) events_->give(event_);
  check_cuda(device.api(), result, device.words() + ": cuEventRecord");
}

bool GpuMark::has_come() const {
  const GpuDevice& device = events_->device();
  const CurrentDevice current(device);
  const cuda::Result result = device.api().event_query(event_);
  if (result == cuda::kNotReady) return false;
  check_cuda(device.api(), result, device.words());
  return true;
}

}  // namespace hvdrun
