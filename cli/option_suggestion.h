// "did you mean": the option that a misspelled word comes nearest to.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// Empty when none is near.
std::string nearest_option(std::string_view word);

}  // namespace hvdrun
