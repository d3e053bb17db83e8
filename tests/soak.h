// The length of a random test and its seed: HVD_TEST_PERCENT of its full count (10 unless set;
// scripts/soak sets 100) and HVD_TEST_SEED. The seed is random unless set; it is printed, so that a
// failure can be repeated.
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

// Cases that each take long: a soak has all, other runs every second one, from a seed on; says
// which are left out.
inline bool takes_case(std::size_t number, std::uint64_t seed, const std::string& what) {
  if (soak_count(100) >= 100 || (number + seed) % 2 == 0) return true;
  std::cout << "left out below HVD_TEST_PERCENT=100: " << what << "\n";
  return false;
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
