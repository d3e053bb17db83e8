#include "cli/options/stall_times.h"

#include <optional>
#include <string>

#include "cli/options/option_values.h"
#include "cli/options/options.h"
#include "common/base/printable.h"
#include "common/base/seconds.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kMostSeconds = 2147483647;  // Horovod reads an int

std::optional<std::uint64_t> number_in(const Environment& env, const char* name,
                                       std::uint64_t highest) {
  const char* const text = find_variable(env, name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return to_whole({nullptr, name, {text}, true}, 0, highest);
}

std::chrono::milliseconds init_time(const Environment& env) {
  constexpr std::string_view kName = "HVD_INIT_TIMEOUT";
  const char* const given = find_variable(env, kName);
  if (given == nullptr) return limits::kInitTimeout;
  if (const auto time = read_seconds(given)) return *time;
  throw UsageError(std::string(kName) + "=" + quoted_word(given) +
                   ": write seconds greater than 0, such as 30 or 0.5");
}

}  // namespace

StallTimes stall_times(const Environment& env) {
  StallTimes times;
  if (const auto seconds = number_in(env, "HOROVOD_STALL_CHECK_TIME_SECONDS", kMostSeconds))
    times.warning = std::chrono::seconds(*seconds);
  if (const auto seconds = number_in(env, "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", kMostSeconds))
    times.shutdown = std::chrono::seconds(*seconds);
  if (number_in(env, "HOROVOD_STALL_CHECK_DISABLE", 1).value_or(0) != 0)
    times.warning = times.shutdown = {};
  times.init = init_time(env);
  return times;
}

}  // namespace hvdrun
