// Everything below a process that is a sub-reaper (PR_SET_CHILD_SUBREAPER): its descendants cannot
// leave it, by setsid or a double fork either, so walking the tree finds them all.
#pragma once

#include <cstddef>
#include <sys/types.h>
#include <vector>

namespace hvdrun {

// Makes the calling process the reaper of all its descendants. False where the kernel cannot.
bool become_subreaper();

// True when the calling process has children, ended ones included. At the start of a program those
// are another's: of the shell, say, that became this program by exec. A sub-reaper would adopt what
// they leave behind, too, and could not tell it from its own, so who has children does not become
// one.
bool has_children();

// All descendants of the calling process that are alive (zombies are not), parents before children.
std::vector<pid_t> living_descendants();
// The same of a child.
std::vector<pid_t> living_below(pid_t pid);

// One pass of SIGKILL over all descendants but those in `spare` and what is below them: each is
// stopped before its children are looked up, so that it cannot start another meanwhile. Reaps what
// has ended. Returns how many were alive. Callers repeat until it returns 0: a process that was
// just being forked appears in the next pass.
std::size_t kill_descendants(const std::vector<pid_t>& spare = {});

// SIGKILL to those descendants that are in the session, which has no leader any more. For the
// moment after its end: repeats a few times, until none is left.
void kill_session(pid_t session);

// The same of the descendants of a child.
std::size_t kill_below(pid_t pid, const std::vector<pid_t>& spare = {});

// kill_descendants until nothing is left or the passes, a millisecond apart, are used up; blocking,
// for the last moments of a process. True when nothing is left.
bool kill_descendants_and_wait(int passes = 2000);

// The same for a process that has children of another's: kills what is below these of its children,
// then them. One that is a sub-reaper stays, stopped, until nothing is left below it. Those that
// have been reaped already are left out.
bool kill_children_and_wait(std::vector<pid_t> children, int passes = 2000);

}  // namespace hvdrun
