// The part of an operation whose buffers are in the memory of this rank's GPU.
#pragma once

#include <memory>
#include <vector>

#include "worker/hvd/gpu/events.h"
#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun {

// In the place of buffers, for a barrier that is run by a GpuExecutor: it makes a communicator of
// some of its ranks out of its own.
struct GpuSplit {
  std::vector<int> members;  // ascending
  // Null: this rank is none of them, or the executor has nothing to make it of.
  std::unique_ptr<NcclCommunicator> made;
};

// Shared by the copies of an Operation. Written by whoever has the operation: the submitting
// thread, then the one that runs it, then who waits for it.
struct DeviceUse {
  cuda::Stream stream = nullptr;  // the caller's
  // The stream's work as the operation was submitted. Null: nothing to wait for.
  std::unique_ptr<const GpuMark> before = {};
  // The caller captures its stream in a graph; the same on all ranks.
  bool captured = false;
  GpuTicket ticket = 0;  // from when it has been queued
  std::shared_ptr<GpuSplit> split = {};
};

}  // namespace hvdrun
