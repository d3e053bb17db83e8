// The cases that every backend of collectives must pass: every operation, type and size, in place
// and not, in every kind of memory, against the serial reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "tests/unit/worker/hvd/comm/reference.h"
#include "worker/hvd/comm/communicator.h"

namespace hvdrun::test {

// A sanitizer makes the plain reference, which most of the time goes into, up to forty times
// slower; the paths depend on bytes only.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kThorough = false;
#else
inline constexpr bool kThorough = true;
#endif

// Around the inline bytes, the small path's end for 1 to 8 ranks, the 256 KiB chunk, and several
// chunks: those for one type of each size, since a path depends on bytes only. Many ranks on few
// cores take long, so the edges are for few.
inline std::vector<std::size_t> conformance_counts(hvd::DataType type, bool thorough) {
  std::vector<std::size_t> counts{0, 1, 2, 3, 5, 8, 9, 33, 1000};
  if (type != hvd::DataType::uint8 && type != hvd::DataType::float16 &&
      type != hvd::DataType::float32 && type != hvd::DataType::int64)
    return counts;
  const std::size_t chunk = (256U << 10) / element_size(type);
  if (!thorough) {
    if (type == hvd::DataType::float32) counts.insert(counts.end(), {chunk / 8 + 1, chunk + 1});
    return counts;
  }
  const std::vector<std::size_t> edges{chunk / 32, chunk / 8, chunk / 4, chunk};
  for (const std::size_t edge : edges)
    for (const std::size_t count : {edge - 1, edge, edge + 1}) counts.push_back(count);
  if (element_size(type) > 1) counts.push_back(2 * chunk + 7);
  return counts;
}

inline std::vector<Case> conformance_cases(int size) {
  std::vector<Case> cases;
  std::uint64_t round = 0;
  for (const hvd::DataType type : kTypes) {
    for (const std::size_t count : conformance_counts(type, kThorough && size <= 3)) {
      for (const OpKind kind : kKinds) {
        for (const bool in_place : {false, true}) {
          Case c;
          c.kind = kind;
          c.reduction.type = type;
          c.count = count;
          c.in_place = in_place;
          c.misalign = in_place ? 1 : 0;
          c.round = ++round;
          c.uneven = round % 3 == 0;
          c.root = static_cast<int>(round) % size;
          choose_reduction(c, round);
          cases.push_back(c);
          if (count < 1000) continue;
          c.memory = Case::Memory::shared;
          cases.push_back(c);
          c.memory = Case::Memory::mixed;
          cases.push_back(c);
        }
      }
    }
    cases.push_back(Case{});
  }
  if (kThorough) return cases;
  // A sixth of them; not every sixth, which would always be of the same kind of memory.
  std::vector<Case> some;
  for (std::size_t i = 0; i < cases.size(); ++i)
    if (mix(i) % 6 == 0) some.push_back(cases[i]);
  return some;
}

}  // namespace hvdrun::test
