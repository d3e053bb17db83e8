// Stopped children, as the kernel tells their parent of them.
#pragma once

#include <optional>
#include <sys/types.h>

#include "common/base/unique_fd.h"

namespace hvdrun {

// Readable when a child of this process has stopped, gone on or ended. SIGCHLD is blocked in the
// calling thread from here on, and so in what it forks; spawn() gives programs an empty mask. No
// descriptor: errno says why.
UniqueFd open_child_signals();

// Takes from the descriptor what it has.
void drain_child_signals(int fd);

// The child as it was last seen since the question before: true: stopped, false: it goes on, none:
// no change. An end is not reaped.
std::optional<bool> stop_change(pid_t child);

// True when the child has ended, stopped before or not. It is not reaped.
bool has_ended(pid_t child);

}  // namespace hvdrun
