// The folder that the ranks of this host start in.
#pragma once

#include "common/wire/job_messages.h"

namespace hvdrun {

// The user's name for the folder leads over a symbolic link there, which this host may lack: then
// the ranks go to what it leads to, where there is that, and PWD with them.
void settle_folder(LaunchBody& launch);

}  // namespace hvdrun
