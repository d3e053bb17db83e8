// A line that shows how far an epoch is, drawn over itself on a terminal. What is written and when
// is decided here; whoever has the terminal writes it. No LibTorch in here.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace hvdrun {

class ProgressBar {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // Whose terminal it is: this process's, or that of hvdrun, which shows lines that end with \r
  // behind a tag. There the bar is such a line, without escape sequences, and every redraw is a
  // message.
  enum class Terminal { own, of_hvdrun };

  // Never drawn more often than this, however short a step is.
  static constexpr std::chrono::milliseconds kInterval{100};
  static constexpr std::chrono::milliseconds kIntervalOfHvdrun{250};

  // `columns`: those that a line has, without the tag.
  explicit ProgressBar(std::size_t columns, Terminal terminal = Terminal::own)
      : columns_(columns), terminal_(terminal) {}

  // To be written now; empty where it is too early after the last time. `done` of `steps` steps.
  std::string draw(const std::string& label, std::size_t done, std::size_t steps, double loss,
                   Time now);
  // Takes the line away again, so that another may be printed there; empty when there is none.
  std::string clear();

 private:
  std::size_t columns_;
  Terminal terminal_;
  bool visible_ = false;
  std::size_t length_ = 0;  // of what stands there, on hvdrun's
  Time last_{};
};

}  // namespace hvdrun
