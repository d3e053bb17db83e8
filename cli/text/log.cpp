#include "cli/text/log.h"

#include <cassert>
#include <memory>
#include <utility>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace hvdrun {
namespace {

bool verbose_log = false;
HeldLog* held_log = nullptr;

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::error:
      return spdlog::level::err;
  }
  return spdlog::level::debug;  // of a number that a peer made up
}

spdlog::logger& logger() {
  static const auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("hvdrun",
                                                 std::make_shared<spdlog::sinks::stderr_sink_st>());
    made->set_pattern("hvdrun: %v");
    made->set_level(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

}  // namespace

void set_verbose_log(bool verbose) { verbose_log = verbose; }

bool is_logged(LogLevel level) {
  return verbose_log || level == LogLevel::warn || level == LogLevel::error;
}

void log_line(LogLevel level, std::string_view text) {
  if (!is_logged(level)) return;
  if (held_log == nullptr) {
    logger().log(to_spdlog(level), "{}", text);
  } else if (held_log->say_) {
    held_log->say_(std::string(text));
  } else {
    held_log->lines_.emplace_back(text);
  }
}

HeldLog::HeldLog() {
  assert(held_log == nullptr);
  held_log = this;
}

HeldLog::~HeldLog() {
  held_log = nullptr;
  for (const std::string& line : lines_) log_line(LogLevel::warn, line);
}

void HeldLog::pass_to(Say say) {
  say_ = std::move(say);
  if (!say_) return;
  for (const std::string& line : std::exchange(lines_, {})) say_(line);
}

}  // namespace hvdrun
