// A loss for the eye. No LibTorch in here.
#pragma once

#include <string>

namespace hvdrun {

// With four digits behind the point; what is no number is said in words, and what is very large has
// an exponent.
std::string number_text(double value);

}  // namespace hvdrun
