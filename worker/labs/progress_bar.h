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

  // Never drawn more often than this, however short a step is.
  static constexpr std::chrono::milliseconds kInterval{100};

  explicit ProgressBar(std::size_t columns) : columns_(columns) {}

  // To be written now; empty where it is too early after the last time. `done` of `steps` steps.
  std::string draw(const std::string& label, std::size_t done, std::size_t steps, double loss,
                   Time now);
  // Takes the line away again, so that another may be printed there; empty when there is none.
  std::string clear();

 private:
  std::size_t columns_;
  bool visible_ = false;
  Time last_{};
};

}  // namespace hvdrun
