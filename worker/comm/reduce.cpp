// Compiled with -O3: the loops over `acc` are written to become vector code.
#include "worker/comm/reduce.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace hvdrun {
namespace {

constexpr std::size_t kBlock = 512;  // elements; the accumulators stay in the first-level cache

// Acc: unsigned for integer sums (they wrap), wider where an average must not.
template <class T, class Acc, bool average>
void reduce_typed(const std::byte* const* sources, std::size_t ranks, std::size_t count,
                  std::byte* output) {
  assert(ranks > 0);
  alignas(64) Acc acc[kBlock];
  const auto source = [&](std::size_t rank) { return reinterpret_cast<const T*>(sources[rank]); };
  for (std::size_t start = 0; start < count; start += kBlock) {
    const std::size_t size = std::min(kBlock, count - start);
    const T* first = source(0) + start;
    const T* second = source(ranks > 1 ? 1 : 0) + start;
    if (ranks == 1) {
      for (std::size_t i = 0; i < size; ++i) acc[i] = static_cast<Acc>(first[i]);
    } else {
      for (std::size_t i = 0; i < size; ++i)
        acc[i] = static_cast<Acc>(first[i]) + static_cast<Acc>(second[i]);
    }
    for (std::size_t rank = 2; rank < ranks; ++rank) {
      const T* next = source(rank) + start;
      for (std::size_t i = 0; i < size; ++i) acc[i] = acc[i] + static_cast<Acc>(next[i]);
    }
    if constexpr (average) {
      using Quotient = std::conditional_t<std::is_floating_point_v<T>, T, std::int64_t>;
      const auto divisor = static_cast<Quotient>(ranks);
      for (std::size_t i = 0; i < size; ++i)
        acc[i] = static_cast<Acc>(static_cast<Quotient>(acc[i]) / divisor);
    }
    if constexpr (sizeof(Acc) == sizeof(T)) {
      std::memcpy(output + start * sizeof(T), acc, size * sizeof(T));
    } else {
      alignas(64) T result[kBlock];
      for (std::size_t i = 0; i < size; ++i) result[i] = static_cast<T>(acc[i]);
      std::memcpy(output + start * sizeof(T), result, size * sizeof(T));
    }
  }
}

}  // namespace

void reduce(const std::byte* const* sources, std::size_t ranks, std::size_t count,
            hvd::DataType type, hvd::ReduceOp op, std::byte* output) {
  const bool average = op == hvd::ReduceOp::average;
  switch (type) {
    case hvd::DataType::float32:
      return average ? reduce_typed<float, float, true>(sources, ranks, count, output)
                     : reduce_typed<float, float, false>(sources, ranks, count, output);
    case hvd::DataType::float64:
      return average ? reduce_typed<double, double, true>(sources, ranks, count, output)
                     : reduce_typed<double, double, false>(sources, ranks, count, output);
    case hvd::DataType::int32:
      return average
                 ? reduce_typed<std::int32_t, std::int64_t, true>(sources, ranks, count, output)
                 : reduce_typed<std::int32_t, std::uint32_t, false>(sources, ranks, count, output);
    case hvd::DataType::int64:
      return average
                 ? reduce_typed<std::int64_t, std::uint64_t, true>(sources, ranks, count, output)
                 : reduce_typed<std::int64_t, std::uint64_t, false>(sources, ranks, count, output);
  }
}

}  // namespace hvdrun
