// Names of files that one machine tells another.
#pragma once

#include <string_view>

namespace hvdrun {

// The beginning of a name that a file has while it is under way; no other may have one.
inline constexpr std::string_view kUnderWayPrefix = ".hvdrun-";

// A relative path of at most limits::kMaxFilePath bytes and limits::kMaxFileDepth names. No name is
// empty, '.', '..', longer than 255 bytes, has a control character, or begins as above.
bool is_plain_path(std::string_view path);

}  // namespace hvdrun
