// The images that a rank sees at each step.
//
// The order of an epoch follows from (seed, epoch) alone. Step k takes the k-th global batch of it,
// of which every rank takes its contiguous part. So the same global batch size gives the same
// global batches, whatever the number of ranks.
//
// Every sample has its turn in every epoch. Where the global batch does not divide them there is
// one step more, and what is missing is spread over all of them: they are of nearly the same size,
// and no rank ever has more than its share of the global batch. With one sample for each rank some
// may have none in a step; they take one all the same, which counts nothing, for every rank must
// take part.
//
// `global` is the size of the global batch, over `size` ranks. In an elastic job it stays while the
// ranks change, or it changes with them within an epoch. Then what is left is dealt anew. Its
// steps get the last numbers that the epoch would have with batches of that size.
// Rank -1 is one that counts nothing: its part is empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "worker/labs/data/files/pass.h"

namespace hvdrun {

struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
};

// A rank among those whose work counts in a step.
struct StepPlace {
  int rank = 0;
  int size = 1;
};

// The steps of an epoch. 0 when there are fewer samples than one step takes.
std::size_t steps_of(std::size_t samples, std::size_t global);

class EpochSampler {
 public:
  // `taken`: samples that have had their turn already, in batches of whatever sizes.
  EpochSampler(std::size_t samples, std::uint64_t seed, std::uint64_t epoch, std::size_t taken = 0);

  std::size_t steps(std::size_t global) const;
  // The step that the samples begin with which are left.
  std::size_t first(std::size_t global) const;
  // The samples of all ranks at one step, as positions in the order.
  IndexRange step(std::size_t step, std::size_t global) const;
  // One rank's part of them.
  IndexRange part(std::size_t step, std::size_t global, int rank, int size) const;
  // The weight of the mean over a rank's part, so that the average over the ranks is the mean over
  // all samples of the step. 0: the part is empty, and the batch is a stand-in.
  double share(std::size_t step, std::size_t global, int rank, int size) const;
  // A number for each sample of one rank's batch in a step, the same whichever rank has it, for
  // what is drawn for it there.
  std::vector<std::uint64_t> draws(std::size_t step, std::size_t global, int rank, int size) const;
  // One rank's way from step `first` through the steps before `end`, augmented. In the place of an
  // empty part stands another rank's sample. `at_first`: its place in the first of these steps,
  // where that is another one.
  Pass pass(std::size_t global, std::size_t end, int rank, int size, std::size_t first = 0,
            std::optional<StepPlace> at_first = std::nullopt) const;

 private:
  // The part, or in the place of an empty one another rank's sample.
  IndexRange batch(std::size_t step, std::size_t global, int rank, int size) const;

  // The steps that the rest takes.
  std::size_t rest(std::size_t global) const;

  std::vector<std::uint32_t> order_;
  std::size_t taken_;
  std::uint64_t seed_;
  std::uint64_t epoch_;
};

// The part of `count` things that belongs to one rank; sizes differ by one at most.
IndexRange shard(std::size_t count, int rank, int size);
// One rank's share of a test: as the samples are, in batches of at most `batch_size`.
Pass shard_pass(std::size_t samples, std::size_t batch_size, int rank, int size);

}  // namespace hvdrun
