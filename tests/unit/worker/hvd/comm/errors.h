// Errors of a test's ranks.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/hvd.h>

namespace hvdrun::test {

struct RankError {
  std::string text;
  std::optional<hvd::ErrorCode> code;  // nothing: not an hvd::Error
};
using RankErrors = std::vector<std::optional<RankError>>;

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

inline std::optional<RankError> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return RankError{error.what(), error.code()};
  } catch (const std::exception& error) {
    return RankError{error.what(), std::nullopt};
  }
  return std::nullopt;
}

}  // namespace hvdrun::test
