#include "worker/labs/progress_bar.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kLongestBar = 30;

}  // namespace

std::string ProgressBar::draw(const std::string& label, std::size_t done, std::size_t steps,
                              double loss, Time now) {
  const auto interval = terminal_ == Terminal::own ? kInterval : kIntervalOfHvdrun;
  if (visible_ && now - last_ < interval) return {};
  visible_ = true;
  last_ = now;
  char numbers[96];
  std::snprintf(numbers, sizeof(numbers), " %zu/%zu  loss %.4f", done, steps, loss);
  std::string line = label;
  // The last column stays empty: some terminals go to the next line behind it.
  const std::size_t room = columns_ > 0 ? columns_ - 1 : 0;
  const std::size_t used = label.size() + std::string(numbers).size() + 3;
  if (used + 5 <= room && steps > 0) {
    const std::size_t length = std::min(kLongestBar, room - used);
    const std::size_t filled = length * std::min(done, steps) / steps;
    line += " [" + std::string(filled, '#') + std::string(length - filled, '.') + "]";
  }
  line += numbers;
  if (line.size() > room) line.resize(room);
  if (terminal_ == Terminal::own) return "\r" + line + "\x1b[K";
  const std::size_t before = std::exchange(length_, line.size());
  line.resize(std::max(before, line.size()), ' ');
  return line + "\r";
}

std::string ProgressBar::clear() {
  if (!visible_) return {};
  visible_ = false;
  if (terminal_ == Terminal::own) return "\r\x1b[K";
  return std::string(std::exchange(length_, 0), ' ') + "\r";
}

}  // namespace hvdrun
