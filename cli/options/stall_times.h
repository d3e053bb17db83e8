// The limits of how long ranks wait for each other: Horovod's settings of the stall check, and
// libhvd's. They are taken as the ranks find them in their environment. However they were given
// there, they are hvdrun's own too.
#pragma once

#include <chrono>

#include "common/base/environment.h"
#include "common/base/limits.h"

namespace hvdrun {

struct StallTimes {
  std::chrono::milliseconds warning = limits::kStallWarning;  // 0: never
  std::chrono::milliseconds shutdown{};                       // 0: never
  // HVD_INIT_TIMEOUT: how long ranks wait for each other in hvd::init.
  std::chrono::milliseconds init = limits::kInitTimeout;
};

// Throws UsageError, one line that names the variable.
StallTimes stall_times(const Environment& env);

}  // namespace hvdrun
