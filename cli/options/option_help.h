// The text of --help, made from the table of options.
#pragma once

#include <string>

namespace hvdrun {

// `topic`: empty for the first page, which fits a screen; the name of a topic; or "all".
std::string help_text(const std::string& topic);

}  // namespace hvdrun
