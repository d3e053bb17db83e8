// Strings as JSON.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// Quoted and escaped. Bytes that are no UTF-8 become U+FFFD, so that the line is always valid JSON.
std::string json_string(std::string_view bytes);

}  // namespace hvdrun
