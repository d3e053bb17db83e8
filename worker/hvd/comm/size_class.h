// The sizes at which a collective changes its way: decided here, for every communicator.
//
// Below a threshold the number of meetings or messages decides, above it the bytes that are copied;
// docs/benchmarks.md measures both sides. No other file of comm/ has a threshold of its own
// (tests/style/check_thresholds.py).
#pragma once

#include <algorithm>
#include <cstddef>

namespace hvdrun {

// A rank's elements travel with its arrival at the first meeting: they fit the cache line that
// moves between two cores anyway.
inline constexpr std::size_t kInlineBytes = 32;
constexpr bool travels_inline(std::size_t bytes) { return bytes <= kInlineBytes; }

inline constexpr std::size_t kSmallBytes = 64U << 10;
// An operand that goes to every host directly and by one channel.
constexpr bool is_small(std::size_t bytes) { return bytes <= kSmallBytes; }
// An operand that everybody gets of all ranks and reduces whole; between hosts, the first rank of
// each. Up to here, all ranks together, that costs less than a second barrier or message.
constexpr bool is_small_of_all(std::size_t bytes, std::size_t ranks) {
  return bytes <= kSmallBytes / ranks;
}

// A stage of a host's shared memory.
inline constexpr std::size_t kChunkBytes = 256U << 10;
// A stage of two ranks.
inline constexpr std::size_t kPairBytes = 128U << 10;
constexpr std::size_t stage_bytes(std::size_t ranks) {
  return ranks == 2 ? kPairBytes : kChunkBytes;
}
// Two ranks always reduce everything for themselves: one meeting a stage instead of two.
constexpr bool each_reduces_whole(std::size_t bytes, std::size_t ranks) {
  return ranks == 2 || is_small_of_all(bytes, ranks);
}
// Ranks of a host ask each other for buffers in shared memory from one stage on: below, one meeting
// less is worth more.
constexpr bool asks_for_buffers(std::size_t bytes) { return bytes >= kChunkBytes; }

// A chunk of a reduction between hosts, of each channel: several are under way at once.
inline constexpr std::size_t kLeastHostChunk = 32U << 10;
inline constexpr std::size_t kMostHostChunk = 512U << 10;
constexpr std::size_t host_chunk_bytes(std::size_t wanted, std::size_t most = kMostHostChunk) {
  return std::clamp(wanted, kLeastHostChunk, most);
}
// A pair's bytes of an alltoall between hosts that are under way at once.
inline constexpr std::size_t kWindowBytes = 64U << 10;

}  // namespace hvdrun
