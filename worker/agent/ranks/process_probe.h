// A process of ours as the kernel sees it: for hvdrun status, Ctrl-\ and stalls.
#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "common/wire/status_messages.h"

namespace hvdrun {

// `rank` is copied into the answer. A process that is gone has an empty state.
RankProbe probe_process(std::uint32_t rank, pid_t pid);

// Nothing where the kernel does not show it to us; of at most a page.
std::optional<std::string> read_proc_file(const std::string& path);

}  // namespace hvdrun
