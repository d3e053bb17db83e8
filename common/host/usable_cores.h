// The number of cores that this process may really use: CPU affinity, and the CPU quota of its
// cgroup.
#pragma once

#include <cstdint>

namespace hvdrun {

// At least 1. A quota of a fraction of a core counts as one.
std::uint32_t usable_cores();

}  // namespace hvdrun
