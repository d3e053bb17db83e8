// The rank that has started a process which wants to join. The process's own word proves nothing: a
// rank's environment is inherited, and a child may have been given another rank's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <sys/types.h>

namespace hvdrun {

// The rank that has been started as this very process, if any.
using StartedRank = std::function<std::optional<std::uint32_t>(pid_t)>;

// The rank that `pid` (a number of this process's own, 0: unknown) is, or that it runs below; an
// orphan is its session's. None: a process that no rank has started, of a container or a daemon
// say.
std::optional<std::uint32_t> rank_of_process(pid_t pid, const StartedRank& started);

// "process 4711 (./train --epochs 3)", at most about 100 bytes of its command line, printable.
std::string process_text(pid_t pid);

}  // namespace hvdrun
