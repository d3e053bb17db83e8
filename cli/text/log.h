// hvdrun's own lines on stderr: warnings always, the steps of a launch with --verbose.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/messages.h"

namespace hvdrun {

// Levels below warn are shown, or not. Nothing else is done before the first line is written.
void set_verbose_log(bool verbose);
bool is_logged(LogLevel level);
// Written at once, and so perhaps not before a reader reads; not while there is a HeldLog.
void log_line(LogLevel level, std::string_view text);

// As long as it lives log_line() waits for nobody: lines are kept for the viewer, and go to it once
// there is one. Those that none took are written in the end. One at a time.
class HeldLog {
 public:
  using Say = std::function<void(const std::string& text)>;

  HeldLog();
  ~HeldLog();
  HeldLog(const HeldLog&) = delete;
  HeldLog& operator=(const HeldLog&) = delete;

  // An empty one: there is no viewer any more.
  void pass_to(Say say);

 private:
  friend void log_line(LogLevel level, std::string_view text);

  Say say_;
  std::vector<std::string> lines_;
};

}  // namespace hvdrun
