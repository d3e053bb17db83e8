// splitmix64 (Steele, Lea, Flood 2014): a small generator with the same numbers on every machine,
// which the distributions of <random> do not promise.
#pragma once

#include <cstdint>

namespace hvdrun {

class SplitMix {
 public:
  explicit SplitMix(std::uint64_t seed) : state_(seed) {}
  // A stream of its own for every pair of numbers.
  SplitMix(std::uint64_t seed, std::uint64_t stream) : state_(seed) {
    state_ = next() ^ (stream + 1) * 0xd1342543de82ef95;
    state_ = next();
  }

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }

  // 0 .. bound - 1, for a bound below 2^32. The bias is under bound / 2^32.
  std::uint64_t below(std::uint64_t bound) { return (next() >> 32) * bound >> 32; }
  // low .. high, both included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low) + 1));
  }

 private:
  std::uint64_t state_;
};

}  // namespace hvdrun
