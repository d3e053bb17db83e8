// How well a model does on some samples, over all ranks.
#pragma once

#include <cstddef>

namespace hvdrun {

struct Score {
  double loss = 0;      // mean
  double accuracy = 0;  // 0 to 1
  std::size_t samples = 0;
};

}  // namespace hvdrun
