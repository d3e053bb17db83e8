// Memory of a GPU that dead processes have left behind: the driver may give it back later than the
// process can be waited for. Whoever takes the place of one of them would find too little.
#pragma once

#include <chrono>
#include <string>

#include "worker/hvd/gpu/gpu_device.h"

namespace hvdrun {

enum class DeadMemory {
  none,
  some,     // still, when the time was over
  unknown,  // there is no NVML, or it tells other process numbers than this process has
};

inline constexpr std::chrono::milliseconds kDeadMemoryPatience{50'000};

// Waits until the driver has none on this GPU, for `patience` at most. This process must have a
// context there: NVML lists it with its own number, or its list says nothing here. `file`: for
// tests; empty: NVML where the loader finds it. Any thread.
DeadMemory await_dead_memory(const GpuDevice& device,
                             std::chrono::milliseconds patience = kDeadMemoryPatience,
                             const std::string& file = {});

}  // namespace hvdrun
