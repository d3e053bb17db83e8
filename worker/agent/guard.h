// The guard of one host: holds the lease (its stdin, a pipe from the driver or from sshd), starts
// the agent, and kills everything below itself when either is gone.
//
// Both guard and agent are sub-reapers, nested: a sub-reaper adopts only its own descendants, so
// whichever of the two is killed, the other still has all workers below it.
#pragma once

namespace hvdrun {

// Reads a Bootstrap frame from stdin, then guards until the agent ends or the lease does. Returns
// the exit code: the agent's, or 1.
int run_guard();

}  // namespace hvdrun
