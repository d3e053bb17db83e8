// A process that waits for a child and ends as the child did, where that child works in its place.
#pragma once

#include <sys/types.h>

#include "common/base/unique_fd.h"

namespace hvdrun {

// Waits for this child alone, whatever other children the process has, and returns its wait status.
int wait_for_child(pid_t child);

// Ends the process by the child's exit code or signal, without a core file and exit handlers.
[[noreturn]] void end_as(int wait_status);

// Forks, and returns in the child, which has no children whatever the caller had: a descriptor that
// can be read once its parent is gone. The parent stands in for it with whoever started it: never
// returns. No descriptor: nothing was forked, and errno says why. The process must have one thread.
UniqueFd go_on_in_child();

}  // namespace hvdrun
