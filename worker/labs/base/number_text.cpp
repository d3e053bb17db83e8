#include "worker/labs/base/number_text.h"

#include <cmath>
#include <cstdio>

namespace hvdrun {

std::string number_text(double value) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "infinite" : "-infinite";
  char text[32];
  std::snprintf(text, sizeof text, std::abs(value) < 1e6 ? "%.4f" : "%.4g", value);
  return text;
}

}  // namespace hvdrun
