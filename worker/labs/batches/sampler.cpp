#include "worker/labs/batches/sampler.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "worker/labs/data/files/split_mix.h"

namespace hvdrun {

std::size_t steps_of(std::size_t samples, std::size_t global) {
  return samples < global ? 0 : (samples + global - 1) / global;
}

// Fisher and Yates with our own generator: std::shuffle may differ from one library to the next.
EpochSampler::EpochSampler(std::size_t samples, std::uint64_t seed, std::uint64_t epoch,
                           std::size_t taken)
    : order_(samples), taken_(taken), seed_(seed), epoch_(epoch) {
  std::iota(order_.begin(), order_.end(), 0U);
  SplitMix random(seed, epoch);
  for (std::size_t i = samples; i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
}

std::size_t EpochSampler::rest(std::size_t global) const {
  if (taken_ == 0) return steps_of(order_.size(), global);
  return (order_.size() - taken_ + global - 1) / global;
}

std::size_t EpochSampler::first(std::size_t global) const {
  const std::size_t whole = steps_of(order_.size(), global);
  return whole - std::min(whole, rest(global));
}

std::size_t EpochSampler::steps(std::size_t global) const { return first(global) + rest(global); }

IndexRange EpochSampler::step(std::size_t step, std::size_t global) const {
  const std::size_t left = order_.size() - taken_;
  const std::size_t all = rest(global);
  const std::size_t nth = step - first(global);
  return {taken_ + left * nth / all, taken_ + left * (nth + 1) / all};
}

IndexRange EpochSampler::part(std::size_t step, std::size_t global, int rank, int size) const {
  const IndexRange whole = this->step(step, global);
  if (rank < 0) return {whole.begin, whole.begin};
  const IndexRange mine = shard(whole.size(), rank, size);
  return {whole.begin + mine.begin, whole.begin + mine.end};
}

double EpochSampler::share(std::size_t step, std::size_t global, int rank, int size) const {
  return static_cast<double>(part(step, global, rank, size).size()) * size /
         static_cast<double>(this->step(step, global).size());
}

IndexRange EpochSampler::batch(std::size_t step, std::size_t global, int rank, int size) const {
  IndexRange mine = part(step, global, rank, size);
  // An empty part is followed by a sample of its step, since the last rank's part has one.
  if (mine.size() == 0) ++mine.end;
  return mine;
}

std::vector<std::uint64_t> EpochSampler::draws(std::size_t step, std::size_t global, int rank,
                                               int size) const {
  const IndexRange mine = batch(step, global, rank, size);
  std::vector<std::uint64_t> numbers;
  for (std::size_t i = mine.begin; i < mine.end; ++i)
    numbers.push_back(SplitMix(seed_, epoch_ << 32 | order_[i]).next());
  return numbers;
}

Pass EpochSampler::pass(std::size_t global, std::size_t end, int rank, int size, std::size_t first,
                        std::optional<StepPlace> at_first) const {
  Pass pass{{}, {}, true, seed_, epoch_};
  const std::size_t behind = std::min(steps(global), end);
  for (std::size_t step = first; step < behind; ++step) {
    const StepPlace place = step == first && at_first ? *at_first : StepPlace{rank, size};
    const IndexRange mine = batch(step, global, place.rank, place.size);
    pass.batch_sizes.push_back(mine.size());
    for (std::size_t i = mine.begin; i < mine.end; ++i) pass.samples.push_back(order_[i]);
  }
  return pass;
}

IndexRange shard(std::size_t count, int rank, int size) {
  const auto ranks = static_cast<std::size_t>(size);
  const auto r = static_cast<std::size_t>(rank);
  return {count * r / ranks, count * (r + 1) / ranks};
}

Pass shard_pass(std::size_t samples, std::size_t batch_size, int rank, int size) {
  const IndexRange mine = shard(samples, rank, size);
  Pass pass;
  for (std::size_t i = mine.begin; i < mine.end; ++i)
    pass.samples.push_back(static_cast<std::uint32_t>(i));
  for (std::size_t left = mine.size(); left > 0;) {
    pass.batch_sizes.push_back(std::min(left, batch_size));
    left -= pass.batch_sizes.back();
  }
  return pass;
}

}  // namespace hvdrun
