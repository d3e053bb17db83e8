// Where the driver of a job answers its user's commands: one name for each user and job.
#pragma once

#include <string>
#include <sys/types.h>

namespace hvdrun {

// Followed by the job id.
inline std::string status_socket_prefix(uid_t user) {
  return "@hvdrun-status-" + std::to_string(user) + "-";
}

}  // namespace hvdrun
