#include <algorithm>
#include <numeric>
#include <random>

#include <hvd/elastic_run.h>

namespace hvdrun {
namespace {

// The same on every machine, which std::shuffle does not promise.
std::vector<std::size_t> shuffled(std::vector<std::size_t> samples, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t left = samples.size(); left > 1; --left)
    std::swap(samples[left - 1], samples[random() % left]);
  return samples;
}

}  // namespace
}  // namespace hvdrun

namespace hvd::elastic {

ElasticSampler::ElasticSampler(std::size_t size, bool shuffle, std::uint64_t seed)
    : size_(size), shuffle_(shuffle), seed_(seed) {
  reset();
}

std::optional<std::vector<std::size_t>> ElasticSampler::next(std::size_t batch_size) {
  if (batch_size == 0)
    throw Error(ErrorCode::invalid_argument, "ElasticSampler: a batch of 0 samples");
  if (place_ == mine_.size()) return std::nullopt;
  const std::size_t end = place_ + std::min(batch_size, mine_.size() - place_);
  std::vector<std::size_t> batch(mine_.begin() + static_cast<std::ptrdiff_t>(place_),
                                 mine_.begin() + static_cast<std::ptrdiff_t>(end));
  place_ = end;
  return batch;
}

void ElasticSampler::record(std::size_t batch_size) {
  const auto ranks = is_initialized() ? static_cast<std::size_t>(hvd::size()) : 1;
  processed_ = std::min(size_, processed_ + batch_size * ranks);
}

void ElasticSampler::set_epoch(std::uint64_t epoch) { load(epoch, 0); }

void ElasticSampler::load(std::uint64_t epoch, std::size_t processed) {
  epoch_ = epoch;
  processed_ = std::min(size_, processed);
  reset();
}

void ElasticSampler::reset() {
  std::vector<std::size_t> order(size_);
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (shuffle_) order = hvdrun::shuffled(std::move(order), seed_ + epoch_);
  order.erase(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(processed_));
  const bool joined = is_initialized();
  const auto ranks = joined ? static_cast<std::size_t>(hvd::size()) : 1;
  const auto rank = joined ? static_cast<std::size_t>(hvd::rank()) : 0;
  mine_.clear();
  place_ = 0;
  // One of each round of all ranks, so that a batch of all of them is a run of the order.
  for (std::size_t i = rank; i < (order.size() + ranks - 1) / ranks * ranks; i += ranks)
    mine_.push_back(order[i % order.size()]);
}

}  // namespace hvd::elastic
