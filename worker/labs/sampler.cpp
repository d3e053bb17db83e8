#include "worker/labs/sampler.h"

#include <numeric>
#include <utility>

#include "worker/data/split_mix.h"

namespace hvdrun {

// Fisher and Yates with our own generator: std::shuffle may differ from one library to the next.
EpochSampler::EpochSampler(std::size_t images, std::uint64_t seed, std::uint64_t epoch)
    : order_(images) {
  std::iota(order_.begin(), order_.end(), 0U);
  SplitMix random(seed, epoch);
  for (std::size_t i = images; i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
}

std::size_t EpochSampler::steps(std::size_t batch_size, int size) const {
  return order_.size() / (batch_size * static_cast<std::size_t>(size));
}

const std::uint32_t* EpochSampler::batch(std::size_t step, std::size_t batch_size, int rank,
                                         int size) const {
  const std::size_t global = step * static_cast<std::size_t>(size) + static_cast<std::size_t>(rank);
  return order_.data() + global * batch_size;
}

IndexRange shard(std::size_t count, int rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto r = static_cast<std::size_t>(rank);
  return {count * r / ranks, count * (r + 1) / ranks};
}

}  // namespace hvdrun
