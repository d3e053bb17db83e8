#include "worker/torch/bucket_plan.h"

#include <algorithm>
#include <map>
#include <utility>

namespace hvdrun {
std::vector<BucketLayout> plan_buckets(const std::vector<ParameterSize>& parameters,
                                       std::size_t bucket_bytes,
                                       const std::vector<std::size_t>& order) {
  std::vector<BucketLayout> buckets;
  // The bucket that a dtype of a group is filling.
  std::map<std::pair<int, hvd::DataType>, std::size_t> open;
  std::vector<std::size_t>
      completed;  // of each bucket: the place of its last gradient in the order
  for (std::size_t place = 0; place < parameters.size(); ++place) {
    const std::size_t index = order.empty() ? parameters.size() - 1 - place : order[place];
    const auto& [type, elements, group] = parameters[index];
    const std::size_t size = hvd::size_of(type);
    const std::size_t line = kGradientAlignment / size;
    const std::size_t padded = (elements + line - 1) / line * line;
    auto found = open.find({group, type});
    const bool full = found != open.end() && group == kNoGroup &&
                      (buckets[found->second].elements + padded) * size > bucket_bytes;
    if (found == open.end() || full) {
      buckets.push_back({type, 0, {}});
      completed.push_back(0);
      found = open.insert_or_assign({group, type}, buckets.size() - 1).first;
    }
    BucketLayout& bucket = buckets[found->second];
    bucket.slots.push_back({index, bucket.elements});
    bucket.elements += padded;
    completed[found->second] = place;
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
