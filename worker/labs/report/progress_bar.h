// A line that shows how far an epoch is, drawn over itself on a terminal. What is written and when
// is decided here; whoever has the terminal writes it. No LibTorch in here.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

namespace hvdrun {

class ProgressBar {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // The owner of the terminal: this process, or hvdrun, which shows lines that end with \r behind a
  // tag. There the bar is such a line, without escape sequences, and every redraw is a message.
  enum class Terminal { own, of_hvdrun };

  // Never drawn more often than this, however short a step is.
  static constexpr std::chrono::milliseconds kInterval{100};
  static constexpr std::chrono::milliseconds kIntervalOfHvdrun{250};

  // `columns`: those that a line has, without the tag.
  explicit ProgressBar(std::size_t columns, Terminal terminal = Terminal::own)
      : columns_(columns), terminal_(terminal) {}

  // To be written now; empty where it is too early after the last time. `done` of `steps` steps.
  // `label` is that of the epoch: with another one, time and steps begin anew. Where a line has no
  // room for all, it has no bar, then no loss, then no label.
  std::string draw(const std::string& label, std::size_t done, std::size_t steps, double loss,
                   Time now);
  // Takes the line away again, so that another may be printed there; empty when there is none.
  std::string clear();

 private:
  using Seconds = std::chrono::duration<double>;

  void measure(const std::string& label, std::size_t done, Time now);
  // The rest of the epoch, "0:12 left"; by the steps so far but the first, which waits for more
  // than others.
  std::string time_left(std::size_t done, std::size_t steps, Time now);
  std::string line_of(const std::string& label, const std::string& count, const std::string& loss,
                      const std::string& left, double part) const;

  std::size_t columns_;
  Terminal terminal_;
  std::string label_;
  std::size_t first_done_ = 0;  // steps when the first report of this epoch came, at `first_`
  Time first_{};
  std::optional<Seconds> step_;  // what one takes; that of the epoch before until there are two
  std::optional<Time> end_;      // of the epoch, as it was told
  bool visible_ = false;
  std::size_t length_ = 0;  // of what stands there, on hvdrun's
  Time last_{};
};

}  // namespace hvdrun
