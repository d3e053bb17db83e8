// The common parts of the tests of trouble among ranks.
#pragma once

#include <chrono>
#include <string>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "worker/hvd/comm/communicator.h"

namespace hvdrun::test {

inline constexpr CallOptions kPatient{.timeout = std::chrono::milliseconds(20'000)};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline void check_all(const RankErrors& errors, hvd::ErrorCode code, const std::string& part) {
  for (const auto& error : errors) {
    REQUIRE(error.has_value());
    INFO(error->text);
    CHECK(error->code == code);
    CHECK(contains(error->text, part));
  }
}

}  // namespace hvdrun::test
