// hvdrun's own lines on stderr: warnings always, the steps of a launch with --verbose.
#pragma once

#include <string>
#include <string_view>

#include "common/messages.h"

namespace hvdrun {

// Whether levels below warn are shown. Nothing else is done before the first line is written.
void set_verbose_log(bool verbose);
bool is_logged(LogLevel level);
void log_line(LogLevel level, std::string_view text);

}  // namespace hvdrun
