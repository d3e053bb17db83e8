// The score of a model on some samples, over all ranks.
#pragma once

#include <cstddef>

#include "worker/labs/data/files/bad_samples.h"

namespace hvdrun {

struct Score {
  double loss = 0;      // mean
  double accuracy = 0;  // 0 to 1
  std::size_t samples = 0;
  // Those that could not be read: replaced in training, left out elsewhere. The first of all ranks.
  BadSamples bad = {};
};

}  // namespace hvdrun
