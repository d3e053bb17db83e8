// Losses that are NaN or infinite: who had the first one, in which step, and at which rate.
//
// A rank looks at its own losses; the ranks meet over them only where they meet anyway.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hvdrun {

// The rank and step of a loss that is no number, and what was so then.
struct BadStep {
  std::int64_t step = 0;   // of the epoch, from 1
  std::int64_t epoch = 0;  // from 1
  int rank = 0;
  double loss = 0;
  double lr = 0;
  std::string origin;  // where it began, in words; empty: that was not asked for
};

// "epoch 1, step 29: the loss of rank 3 is nan, at learning rate 0.8"
std::string describe(const BadStep& bad);

class LossWatch {
 public:
  // A step of this rank; no collective. `bad.rank` is not read.
  void saw(const BadStep& step);
  // True when this rank has seen one since the last first().
  bool has_news() const { return news_.has_value(); }
  // Steps of this rank whose loss was none, since the last call.
  std::int64_t take_count();
  // Collective, to be called when any rank has news: the first of all ranks' (the lowest rank in
  // a step), the same on all of them. Nothing when none had.
  std::optional<BadStep> first();

 private:
  std::optional<BadStep> news_;
  std::int64_t count_ = 0;
};

}  // namespace hvdrun
