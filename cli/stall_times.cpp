#include "cli/stall_times.h"

#include <optional>

#include "cli/option_values.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kMaxSeconds = 2147483647;  // Horovod reads an int

std::optional<std::uint64_t> number_in(const Environment& env, const char* name,
                                       std::uint64_t highest) {
  const char* const text = find_variable(env, name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return to_whole({nullptr, name, {text}, true}, 0, highest);
}

}  // namespace

StallTimes stall_times(const Environment& env) {
  StallTimes times;
  if (const auto seconds = number_in(env, "HOROVOD_STALL_CHECK_TIME_SECONDS", kMaxSeconds))
    times.warning = std::chrono::seconds(*seconds);
  if (const auto seconds = number_in(env, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", kMaxSeconds))
    times.shutdown = std::chrono::seconds(*seconds);
  if (number_in(env, "HOROVOD_STALL_CHECK_DISABLE", 1).value_or(0) != 0)
    times.warning = times.shutdown = {};
  return times;
}

}  // namespace hvdrun
