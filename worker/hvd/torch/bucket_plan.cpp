#include "worker/hvd/torch/bucket_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hvdrun {
namespace {

// Whole cache lines.
std::size_t padded_elements(const ParameterSize& parameter) {
  const std::size_t line = kGradientAlignment / hvd::size_of(parameter.type);
  return (parameter.elements + line - 1) / line * line;
}

std::size_t padded_bytes(const ParameterSize& parameter) {
  return padded_elements(parameter) * hvd::size_of(parameter.type);
}

// The size of a bucket that begins when backward has produced `before` bytes and `after` are to
// come.
std::size_t size_limit(std::size_t bucket_bytes, std::size_t before, std::size_t after) {
  const std::size_t smallest = std::min(bucket_bytes, kSmallestBucket);
  return std::clamp(std::min(before, after / 2), smallest, bucket_bytes);
}

}  // namespace

std::vector<BucketLayout> plan_buckets(const std::vector<ParameterSize>& parameters,
                                       std::size_t bucket_bytes,
                                       const std::vector<std::size_t>& order) {
  std::vector<BucketLayout> buckets;
  // The bucket that a dtype of a group is filling.
  std::map<std::pair<int, hvd::DataType>, std::size_t> open;
  std::vector<std::size_t>
      completed;                    // of each bucket: the place of its last gradient in the order
  std::vector<std::size_t> limits;  // of each bucket, in bytes
  std::size_t before = 0;
  std::size_t after = 0;
  for (const ParameterSize& parameter : parameters) after += padded_bytes(parameter);
  for (std::size_t place = 0; place < parameters.size(); ++place) {
    const std::size_t index = order.empty() ? parameters.size() - 1 - place : order[place];
    const auto& [type, elements, group] = parameters[index];
    const std::size_t size = hvd::size_of(type);
    const std::size_t padded = padded_elements(parameters[index]);
    auto found = open.find({group, type});
    const bool full = found != open.end() && group == kNoGroup &&
                      (buckets[found->second].elements + padded) * size > limits[found->second];
    if (found == open.end() || full) {
      buckets.push_back({type, 0, {}});
      completed.push_back(0);
      limits.push_back(size_limit(bucket_bytes, before, after));
      found = open.insert_or_assign({group, type}, buckets.size() - 1).first;
    }
    BucketLayout& bucket = buckets[found->second];
    bucket.slots.push_back({index, bucket.elements});
    bucket.elements += padded;
    completed[found->second] = place;
    before += padded * size;
    after -= padded * size;
  }
  // With several dtypes or groups a bucket opened early may be completed late.
  std::vector<std::size_t> by_completion(buckets.size());
  for (std::size_t i = 0; i < buckets.size(); ++i) by_completion[i] = i;
  std::sort(by_completion.begin(), by_completion.end(),
            [&](std::size_t a, std::size_t b) { return completed[a] < completed[b]; });
  std::vector<BucketLayout> sorted;
  sorted.reserve(buckets.size());
  for (const std::size_t bucket : by_completion) sorted.push_back(std::move(buckets[bucket]));
  return sorted;
}

}  // namespace hvdrun
