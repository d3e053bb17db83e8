// The verdict on a job in words: the first cause, its last words, and the others as its victims.
#pragma once

#include <string>
#include <vector>

#include "common/messages.h"

namespace hvdrun {

// One line without a line end; empty for success.
std::string describe_cause(const JobEnded& verdict);

// The whole block for the user, cause first. `last_lines`: the end of the first cause's stderr.
// No lines for success.
std::vector<std::string> describe_failure(const JobEnded& verdict,
                                          const std::vector<std::string>& last_lines);

// "signal 9 (SIGKILL)".
std::string signal_name(std::uint32_t signal);

}  // namespace hvdrun
