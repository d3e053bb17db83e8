// Once over some samples of a data set, in an order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvdrun {

// The fate of a sample that cannot be read: the pass ends there, another one takes its place, or
// the batch is smaller.
enum class OnBadSample { stop, replace, leave_out };

struct Pass {
  std::vector<std::uint32_t> samples;    // of this rank
  std::vector<std::size_t> batch_sizes;  // one after the other they make up the samples
  bool augment = false;
  // Changes to an augmented sample follow from these two and its number alone, whichever rank has
  // it.
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  OnBadSample on_bad = OnBadSample::stop;
};

}  // namespace hvdrun
