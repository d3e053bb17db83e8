// The kernel on a process that is dead, or said to be.
#pragma once

#include <sys/types.h>

namespace hvdrun {

// It is writing a core file: nothing comes of it any more, though it may not end for minutes.
bool dumps_core(pid_t pid);
// It has a program to run: it is not ending. False also where the kernel does not tell.
bool has_program(pid_t pid);

}  // namespace hvdrun
