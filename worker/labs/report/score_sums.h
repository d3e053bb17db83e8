// The score of an epoch's steps so far, which others are added to: an elastic run commits in the
// middle of an epoch. Of plain numbers, so that it can be a part of a state.
#pragma once

#include <cstddef>

#include "worker/labs/report/score.h"

namespace hvdrun {

struct ScoreSums {
  double loss = 0;
  double correct = 0;
  double samples = 0;
  double seconds = 0;  // that they took

  void add(const Score& score) {
    const auto count = static_cast<double>(score.samples);
    loss += score.loss * count;
    correct += score.accuracy * count;
    samples += count;
  }
  // The score of these steps and those of `rest`.
  Score with(Score rest) const {
    if (samples == 0) return rest;
    ScoreSums all = *this;
    all.add(rest);
    rest.loss = all.loss / all.samples;
    rest.accuracy = all.correct / all.samples;
    rest.samples = static_cast<std::size_t>(all.samples);
    return rest;
  }
};

}  // namespace hvdrun
