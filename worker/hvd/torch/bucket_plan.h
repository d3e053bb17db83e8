// The places of gradients: a list of parameters in, flat buckets out. No LibTorch in here.
//
// Until somebody has seen the order in which gradients become ready, it is taken to be that from
// the last parameter to the first. A bucket holds one dtype, because it is reduced as one array.
#pragma once

#include <cstddef>
#include <vector>

#include <hvd/hvd.h>

namespace hvdrun {

// Every gradient begins on a cache line: vector loads stay aligned, and two threads that write
// neighbouring gradients do not share a line.
inline constexpr std::size_t kGradientAlignment = 64;

inline constexpr int kNoGroup = -1;

struct ParameterSize {
  hvd::DataType type;
  std::size_t elements;  // at least 1
  int group = kNoGroup;  // those of one group (and dtype) are one bucket, whatever its size
};

struct BucketSlot {
  std::size_t parameter;  // index into the list
  std::size_t offset;     // in elements
};

struct BucketLayout {
  hvd::DataType type;
  std::size_t elements = 0;  // padding included
  std::vector<BucketSlot> slots;
};

// Parameters in the order in which the optimizer knows them; `order`: their indices as backward
// produces gradients, each once, or nothing. A bucket without a group is closed when the next
// gradient would take it over its size; a larger gradient has one for itself. The size is
// `bucket_bytes` in the middle of backward. At both ends it is less, but kSmallestBucket if that is
// less than `bucket_bytes`: the first bucket is to travel soon, and what backward produces last has
// no backward to hide behind. The buckets come in the order in which backward completes them.
inline constexpr std::size_t kSmallestBucket = std::size_t{512} << 10;
std::vector<BucketLayout> plan_buckets(const std::vector<ParameterSize>& parameters,
                                       std::size_t bucket_bytes,
                                       const std::vector<std::size_t>& order = {});

}  // namespace hvdrun
