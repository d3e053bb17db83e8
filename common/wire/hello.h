// The first frame of every connection, judged by whoever accepts it.
#pragma once

#include <optional>
#include <string>

#include "common/wire/messages.h"

namespace hvdrun {

// Decodes the hello; what is wrong with it comes back as the refusal to send.
std::optional<Refuse> check_hello(const Frame& frame, const std::string& job_id, Hello& hello);

}  // namespace hvdrun
