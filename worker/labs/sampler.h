// Which images a rank sees at which step.
//
// The order of an epoch follows from (seed, epoch) alone, and step k takes the k-th global batch of
// it, of which every rank takes its contiguous part. So the same global batch size gives the same
// global batches, whatever the number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvdrun {

struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

class EpochSampler {
 public:
  EpochSampler(std::size_t images, std::uint64_t seed, std::uint64_t epoch);

  // The last, incomplete global batch is left out.
  std::size_t steps(std::size_t batch_size, int size) const;
  // The images of one rank at one step.
  const std::uint32_t* batch(std::size_t step, std::size_t batch_size, int rank, int size) const;

 private:
  std::vector<std::uint32_t> order_;
};

// The part of `count` things that belongs to one rank; sizes differ by one at most.
IndexRange shard(std::size_t count, int rank, int size);

}  // namespace hvdrun
