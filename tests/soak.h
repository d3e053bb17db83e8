// How long a random test runs, and from which seed: HVD_TEST_PERCENT of its full count (10 unless
// set; scripts/soak sets 100) and HVD_TEST_SEED (random unless set), so that a failure can be
// repeated.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <random>
#include <string>

namespace hvdrun::test {

inline std::size_t soak_count(std::size_t full) {
  const char* const percent = std::getenv("HVD_TEST_PERCENT");  // NOLINT(concurrency-mt-unsafe)
  return full * (percent != nullptr ? std::strtoul(percent, nullptr, 10) : 10) / 100;
}

// Prints it under the name of the test.
inline std::uint64_t soak_seed(const std::string& name) {
  const char* const set = std::getenv("HVD_TEST_SEED");  // NOLINT(concurrency-mt-unsafe)
  const std::uint64_t seed =
      set != nullptr ? std::strtoull(set, nullptr, 10) : std::random_device{}();
  std::cout << name << ": HVD_TEST_SEED=" << seed << "\n";
  return seed;
}

}  // namespace hvdrun::test
