// The stream that collectives run on beside the user's: ordered with it by events, both ways,
// without the host ever waiting.
#pragma once

#include "worker/hvd/gpu/events.h"

namespace hvdrun {

class GpuStream {
 public:
  // A stream of the highest priority, so that communication is not queued behind kernels that fill
  // the GPU. `device` must outlive this. Throws Error(unavailable).
  explicit GpuStream(const GpuDevice& device);
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  // Its work must have ended or been aborted.
  ~GpuStream();

  cuda::Stream get() const { return stream_; }

  // The functions below need the device to be current.
  // What comes later on this stream runs after what is on `other` now.
  void follow(cuda::Stream other);
  // Later work on this stream runs after what the event was recorded behind.
  void follow(cuda::Event event);
  // Later work on `other` runs after what is here now. The event tells when that has ended; to be
  // given back by recycle().
  cuda::Event lead(cuda::Stream other);
  // Later work on `other` runs after what `event`, one of lead()'s, tells of.
  void lead(cuda::Stream other, cuda::Event event) const;
  // Not of an event that has become part of a graph.
  bool has_ended(cuda::Event event) const;
  void recycle(cuda::Event event) { events_.give(event); }

 private:
  const GpuDevice& device_;
  cuda::Stream stream_ = nullptr;
  cuda::Event ready_ = nullptr;
  GpuEvents events_;
};

}  // namespace hvdrun
