// What the kernel says of a process of ours: for hvdrun status and Ctrl-\.
#pragma once

#include <sys/types.h>

#include "common/status_messages.h"

namespace hvdrun {

// `rank` is copied into the answer. A process that is gone has an empty state.
RankProbe probe_process(std::uint32_t rank, pid_t pid);

}  // namespace hvdrun
