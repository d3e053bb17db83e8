// Facts of this machine and this user that decide how hosts are opened.
#pragma once

#include "cli/openers/ssh/ssh_choice.h"

namespace hvdrun {

// Files are read once: many hosts share their keys and known hosts.
SshSurroundings ssh_surroundings();

}  // namespace hvdrun
