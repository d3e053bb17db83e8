// The verdict of a job in words, for the user's terminal.
#pragma once

#include <string>

#include "common/messages.h"

namespace hvdrun {

// One line without "hvdrun: "; empty for success.
std::string describe_verdict(const JobEnded& verdict);

}  // namespace hvdrun
