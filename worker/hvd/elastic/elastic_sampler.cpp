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

ElasticSampler::ElasticSampler(std::size_t size, bool shuffle, std::uint64_t seed, Padding padding)
    : size_(size), shuffle_(shuffle), padding_(padding), seed_(seed) {
  load(0, 0);
}

std::optional<std::vector<std::size_t>> ElasticSampler::next(std::size_t global_batch) {
  if (global_batch == 0)
    throw Error(ErrorCode::invalid_argument, "ElasticSampler: a batch of 0 samples");
  const std::size_t batch = std::min(global_batch, remaining());
  if (batch == 0) return std::nullopt;
  const bool joined = is_initialized();
  const auto ranks = joined ? static_cast<std::size_t>(contributors()) : 1;
  const int number = joined ? contributor_rank() : 0;
  // Positions in the batch. The first ranks have one more.
  const std::size_t even = (batch + ranks - 1) / ranks;
  std::size_t begin = 0;
  std::size_t count = even;  // of a stand-in, as some layers take no single sample
  weight_ = 0;
  if (number >= 0) {
    const auto rank = static_cast<std::size_t>(number);
    begin = rank * even;
    weight_ = 1;
    if (padding_ == Padding::none) {
      begin = batch / ranks * rank + std::min(rank, batch % ranks);
      count = batch / ranks + (rank < batch % ranks ? 1 : 0);
      weight_ =
          static_cast<double>(count) * static_cast<double>(ranks) / static_cast<double>(batch);
    }
  }
  std::vector<std::size_t> part;
  part.reserve(count);
  for (std::size_t i = begin; i < begin + count; ++i) part.push_back(order_[dealt_ + i % batch]);
  dealt_ += batch;
  unrecorded_.push_back(batch);
  return part;
}

void ElasticSampler::record() {
  if (unrecorded_.empty()) return;
  processed_ += unrecorded_.front();
  unrecorded_.erase(unrecorded_.begin());
}

void ElasticSampler::set_epoch(std::uint64_t epoch) { load(epoch, 0); }

void ElasticSampler::load(std::uint64_t epoch, std::size_t processed) {
  if (order_.empty() || epoch != epoch_) {
    order_.resize(size_);
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    if (shuffle_) order_ = hvdrun::shuffled(std::move(order_), seed_ + epoch);
  }
  epoch_ = epoch;
  processed_ = std::min(size_, processed);
  reset();
}

void ElasticSampler::reset() {
  dealt_ = processed_;
  unrecorded_.clear();
}

}  // namespace hvd::elastic
