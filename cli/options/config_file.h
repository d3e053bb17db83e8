// --config-file: a YAML file with the sections and keys that horovodrun reads. Sans-I/O.
#pragma once

#include <string>
#include <vector>

#include "cli/options/option_table.h"

namespace hvdrun {

// As if the options had been given; `where` of each is "file:line: key". Throws UsageError, one
// line with file and line, for what is not YAML, an unknown key or a value of the wrong kind.
std::vector<OptionUse> parse_config(const std::string& text, const std::string& file);

}  // namespace hvdrun
