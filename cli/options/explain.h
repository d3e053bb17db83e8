// `hvdrun explain`: what an exit code means and what to do about it.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// The text of `hvdrun explain CODE`. Throws UsageError.
std::string explain_exit_code(const std::vector<std::string>& arguments);

}  // namespace hvdrun
