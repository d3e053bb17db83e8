// --version and --check-build.
#pragma once

#include <string>

namespace hvdrun {

std::string version_text();  // the number alone, as horovodrun prints it
std::string build_text();    // lines with [X] and [ ], in the form of horovodrun --check-build

}  // namespace hvdrun
