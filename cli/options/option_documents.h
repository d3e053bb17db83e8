// The man page and the shells' completions, made from the table of options when hvdrun is built.
#pragma once

#include <string>

namespace hvdrun {

// `kind`: man, bash, zsh or fish.
std::string option_document(const std::string& kind);

}  // namespace hvdrun
