// What of this machine and this user decides how hosts are opened.
#pragma once

#include "cli/transport_choice.h"

namespace hvdrun {

// Files are read once: many hosts share their keys and known hosts.
SshSurroundings ssh_surroundings();

}  // namespace hvdrun
