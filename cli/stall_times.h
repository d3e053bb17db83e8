// Horovod's settings of the stall check, as the ranks find them in their environment: however they
// were given there, they are hvdrun's own too.
#pragma once

#include <chrono>

#include "common/environment.h"
#include "common/limits.h"

namespace hvdrun {

struct StallTimes {
  std::chrono::milliseconds warning = limits::kStallWarning;  // 0: never
  std::chrono::milliseconds shutdown{};                       // 0: never
};

// Throws UsageError, one line that names the variable.
StallTimes stall_times(const Environment& env);

}  // namespace hvdrun
