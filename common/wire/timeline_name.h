// The word in place of a file's name when the program starts the timeline, as in Horovod.
#pragma once

#include <string_view>

namespace hvdrun {

inline constexpr std::string_view kDynamicTimeline = "DYNAMIC";

}  // namespace hvdrun
