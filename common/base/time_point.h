// The clock of all deadlines: it never jumps.
#pragma once

#include <chrono>

namespace hvdrun {

using TimePoint = std::chrono::steady_clock::time_point;

}  // namespace hvdrun
