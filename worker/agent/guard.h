// The guard of one host: holds the lease (its stdin, a pipe from the driver or from sshd), starts
// the agent, and kills everything below itself when either is gone.
//
// Both guard and agent are sub-reapers, nested: a sub-reaper adopts only its own descendants, so
// whichever of the two is killed, the other still has all workers below it.
#pragma once

#include <string>

namespace hvdrun {

// Reads a Bootstrap frame from stdin, then guards until the agent ends or the lease does. Returns
// the exit code: the agent's, or 1. `kept`: the file that this program is, to be touched while it
// runs (worker/agent/kept_agent.h); empty: none.
int run_guard(const std::string& kept = {});

}  // namespace hvdrun
