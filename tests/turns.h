// Long test cases of which .ci/run takes some only, others each time: it sets HVD_TEST_TURNS, a
// number, and has 60 minutes. Elsewhere all are taken.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "tests/catch.h"

namespace hvdrun::test {

// At the begin of a test case: it is its turn, as one of `of` such cases. Says which are left out.
inline bool takes_turn(std::uint64_t of) {
  const char* const turns = std::getenv("HVD_TEST_TURNS");  // NOLINT(concurrency-mt-unsafe)
  if (turns == nullptr) return true;
  const std::string name = Catch::getResultCapture().getCurrentTestName();
  std::uint64_t number = 14'695'981'039'346'656'037U;  // FNV-1a
  for (const char letter : name)
    number = (number ^ static_cast<unsigned char>(letter)) * 1'099'511'628'211U;
  if ((number + std::strtoull(turns, nullptr, 10)) % of == 0) return true;
  std::cout << "left out with HVD_TEST_TURNS=" << turns << ": " << name << "\n";
  return false;
}

}  // namespace hvdrun::test
