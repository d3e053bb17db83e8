#include "worker/torch/bucket_plan.h"

#include <algorithm>
#include <map>

namespace hvdrun {
std::vector<BucketLayout> plan_buckets(const std::vector<ParameterSize>& parameters,
                                       std::size_t bucket_bytes) {
  std::vector<BucketLayout> buckets;
  std::map<hvd::DataType, std::size_t> open;  // the bucket that a dtype is filling
  for (std::size_t index = parameters.size(); index-- > 0;) {
    const auto& [type, elements] = parameters[index];
    const std::size_t size = hvd::size_of(type);
    const std::size_t line = kGradientAlignment / size;
    const std::size_t padded = (elements + line - 1) / line * line;
    auto found = open.find(type);
    if (found == open.end() || (buckets[found->second].elements + padded) * size > bucket_bytes) {
      buckets.push_back({type, 0, {}});
      found = open.insert_or_assign(type, buckets.size() - 1).first;
    }
    BucketLayout& bucket = buckets[found->second];
    bucket.slots.push_back({index, bucket.elements});
    bucket.elements += padded;
  }
  // With several dtypes a bucket opened early may be completed late.
  std::stable_sort(buckets.begin(), buckets.end(), [](const auto& a, const auto& b) {
    return a.slots.back().parameter > b.slots.back().parameter;
  });
  return buckets;
}

}  // namespace hvdrun
