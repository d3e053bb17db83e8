// The number of processes that the kernel's OOM killer has killed on this machine since it booted.
#pragma once

#include <cstdint>

namespace hvdrun {

// From /proc/vmstat, which counts kills for a memory cgroup's limit too. 0 where it is not told.
std::uint64_t oom_kill_count();

}  // namespace hvdrun
