// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// In quotes. Bytes that are not UTF-8 become U+FFFD each, because JSON has no others.
std::string json_quoted(std::string_view text);

}  // namespace hvdrun
