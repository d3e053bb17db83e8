// A time in a variable that libhvd and hvdrun both read: they must agree on it.
#pragma once

#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace hvdrun {

// Seconds above 0, up to 1e9, as in 30 or 0.5; parts of a millisecond are rounded up. None: no such
// time.
inline std::optional<std::chrono::milliseconds> read_seconds(std::string_view text) {
  constexpr double kMaxSeconds = 1e9;
  double seconds = 0;
  const char* const end = text.data() + text.size();
  // from_chars: a program's locale must not decide what "1.5" means.
  const auto [stop, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc() || stop != end || !(seconds > 0 && seconds <= kMaxSeconds))
    return std::nullopt;
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

}  // namespace hvdrun
