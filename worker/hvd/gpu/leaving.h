// The way of a process and its GPU out of an epoch of an elastic job. When a rank is lost, the
// others' communicators fail at once, all of them, and their aborts begin. Then the program gives
// back the graphs that it has captured, which NCCL waits for. The rest is here:
//
//   aborting ── all have ended ──▶ checking ── the context works ──▶ ready
//       └──── time over ────▶ lost ◀──── an error, time over ────┘
//
// A process that is lost cannot go on: a fault of the GPU stays in its context for ever, and what
// NCCL has not freed is in the way of its next communicator. It has to be started again.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "worker/hvd/gpu/nccl_communicator.h"

namespace hvdrun {

// Kernels of the program itself may run on for a while. Less than the time that a member of an
// elastic job has to come to its door.
inline constexpr std::chrono::milliseconds kContextPatience{10'000};

// When all communicators of the rank have failed, or have ended: waits for the above. None: ready.
// Otherwise why the process is lost: "GPU 0 (NVIDIA H200) is of no use to this process any more:
// ...". Any thread.
std::optional<std::string> leave_with_gpu(
    const GpuParts& parts, std::chrono::milliseconds context_patience = kContextPatience);

}  // namespace hvdrun
