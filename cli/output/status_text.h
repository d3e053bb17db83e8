// A job's status as lines for people.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/wire/status_messages.h"

namespace hvdrun {

// One line for the job and one for each rank. `last_line` gives a rank's last line of output; it
// may be empty.
std::vector<std::string> describe_status(
    const JobStatus& status, const std::function<std::string(std::uint32_t rank)>& last_line);

// "3 s", "2 min 5 s", "1 h 2 min".
std::string age_text(std::uint64_t ms);

}  // namespace hvdrun
