#include "worker/labs/report/progress_bar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "worker/labs/base/number_text.h"

namespace hvdrun {
namespace {

constexpr std::size_t kLongestBar = 30;
constexpr std::size_t kShortestBar = 5;

std::string two_digits(long long value) { return (value < 10 ? "0" : "") + std::to_string(value); }

// "0:12", "1:02:03", "4 d 3 h".
std::string clock_text(long long seconds) {
  constexpr long long kDay = 24LL * 60 * 60;
  if (seconds >= kDay)
    return std::to_string(seconds / kDay) + " d " + std::to_string(seconds % kDay / 3600) + " h";
  const long long hours = seconds / 3600;
  const long long minutes = seconds / 60 % 60;
  return (hours > 0 ? std::to_string(hours) + ":" + two_digits(minutes) : std::to_string(minutes)) +
         ":" + two_digits(seconds % 60);
}

}  // namespace

void ProgressBar::measure(const std::string& label, std::size_t done, Time now) {
  if (label != label_ || done < first_done_) {
    label_ = label;
    first_done_ = done;
    first_ = now;
    end_.reset();
  } else if (done > first_done_ && now > first_) {
    step_ = Seconds(now - first_) / static_cast<double>(done - first_done_);
  }
}

std::string ProgressBar::time_left(std::size_t done, std::size_t steps, Time now) {
  if (done >= steps) return "0:00 left";
  constexpr double kMost = 1000.0 * 24 * 60 * 60;  // seconds
  if (!step_ || !(step_->count() * static_cast<double>(steps - done) < kMost)) return "-:-- left";
  const Seconds left = *step_ * static_cast<double>(steps - done);
  const Time end = now + std::chrono::duration_cast<Time::duration>(left);
  // It counts down by the clock, and is corrected only where it is wrong by more than a tenth.
  const Seconds margin = std::max(Seconds(1), left / 10);
  if (!end_ || end > *end_ + margin || end < *end_ - margin) end_ = end;
  const double seconds = std::ceil(Seconds(*end_ - now).count());
  return clock_text(std::max(1LL, static_cast<long long>(seconds))) + " left";
}

std::string ProgressBar::line_of(const std::string& label, const std::string& count,
                                 const std::string& loss, const std::string& left,
                                 double part) const {
  // The last column stays empty: some terminals go to the next line behind it.
  const std::size_t room = columns_ > 0 ? columns_ - 1 : 0;
  const std::string all = "  " + loss + "  " + left;
  const std::size_t used = label.size() + count.size() + all.size() + 4;
  if (used + kShortestBar <= room) {
    const std::size_t length = std::min(kLongestBar, room - used);
    const auto filled = static_cast<std::size_t>(static_cast<double>(length) * part);
    std::string line = label + " [";
    line.append(filled, '#').append(length - filled, '.').append("] ").append(count).append(all);
    return line;
  }
  const std::string counted = label + " " + count;
  const std::array<std::string, 3> shorter = {counted + all, counted + "  " + left,
                                              count + "  " + left};
  const auto* fitting = std::find_if(shorter.begin(), shorter.end(),
                                     [&](const auto& line) { return line.size() <= room; });
  if (fitting != shorter.end()) return *fitting;
  if (count.size() <= room) return count;
  const std::string percent = std::to_string(static_cast<int>(100 * part)) + " %";
  return percent.size() <= room ? percent : "";
}

std::string ProgressBar::draw(const std::string& label, std::size_t done, std::size_t steps,
                              double loss, Time now) {
  measure(label, done, now);
  const auto interval = terminal_ == Terminal::own ? kInterval : kIntervalOfHvdrun;
  if (visible_ && now - last_ < interval) return {};
  visible_ = true;
  last_ = now;
  const double part =
      steps == 0 ? 1 : static_cast<double>(std::min(done, steps)) / static_cast<double>(steps);
  std::string line = line_of(label, std::to_string(done) + "/" + std::to_string(steps),
                             "loss " + number_text(loss), time_left(done, steps, now), part);
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
