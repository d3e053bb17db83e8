#include "worker/hvd/gpu/stream.h"

#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {

GpuStream::GpuStream(const GpuDevice& device) : device_(device), events_(device) {
  const CurrentDevice current(device_);
  const cuda::Api& api = device_.api();
  int least = 0;
  int greatest = 0;
  check_cuda(api, api.stream_priorities(&least, &greatest),
             device_.words() + ": cuCtxGetStreamPriorityRange");
  // Not ordered with the legacy default stream: a user's kernel there must not wait for ours, nor
  // ours for it, but where an event says so.
  check_cuda(api, api.stream_create(&stream_, cuda::kStreamNonBlocking, greatest),
             device_.words() + ": cuStreamCreateWithPriority");
  if (const cuda::Result result = api.event_create(&ready_, cuda::kEventDisableTiming);
      result != cuda::kSuccess) {
    api.stream_destroy(stream_);
    check_cuda(api, result, device_.words() + ": cuEventCreate");
  }
}

GpuStream::~GpuStream() {
  const DeviceToFree current(device_);
  if (!current) return;
  device_.api().event_destroy(ready_);
  device_.api().stream_destroy(stream_);
}

void GpuStream::follow(cuda::Stream other) {
  if (other == stream_) return;
  const cuda::Api& api = device_.api();
  // One event serves all: a wait keeps what was recorded when it was queued.
  check_cuda(api, api.event_record(ready_, other), device_.words() + ": cuEventRecord");
  check_cuda(api, api.stream_wait_event(stream_, ready_, 0),
             device_.words() + ": cuStreamWaitEvent");
}

void GpuStream::follow(cuda::Event event) {
  check_cuda(device_.api(), device_.api().stream_wait_event(stream_, event, 0),
             device_.words() + ": cuStreamWaitEvent");
}

cuda::Event GpuStream::lead(cuda::Stream other) {
  const cuda::Api& api = device_.api();
  cuda::Event event = events_.take();
  cuda::Result result = api.event_record(event, stream_);
  if (result == cuda::kSuccess && other != stream_) result = api.stream_wait_event(other, event, 0);
  if (result != cuda::kSuccess) recycle(event);
  check_cuda(api, result, device_.words() + ": cuStreamWaitEvent");
  return event;
}

void GpuStream::lead(cuda::Stream other, cuda::Event event) const {
  if (other == stream_) return;
  check_cuda(device_.api(), device_.api().stream_wait_event(other, event, 0),
             device_.words() + ": cuStreamWaitEvent");
}

bool GpuStream::has_ended(cuda::Event event) const {
  const cuda::Api& api = device_.api();
  const cuda::Result result = api.event_query(event);
  if (result == cuda::kNotReady) return false;
  check_cuda(api, result, device_.words());
  return true;
}

}  // namespace hvdrun
