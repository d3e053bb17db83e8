// Keeps the lines of many ranks whole on one console. The part of a line that has come waits here
// while others go on, and is shown with the rest. Three kinds are shown in parts. One is longer
// than kMaxLine. One has not ended for the rank's patience (a prompt, a row of dots). The third are
// the longest where all unfinished lines together would be more than hvdrun may hold. A long line
// has the patience once more when more of it comes at its end: then it was the console that was
// slow. Whole lines pass through as they came, in one block. Sans-I/O.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/wire/messages.h"

namespace hvdrun {

class LineHolder;

// Memory for unfinished lines, of all holders together.
struct HeldBytes {
  std::size_t limit = limits::kMaxHeldLines;
  std::size_t used = 0;
  std::vector<LineHolder*> holders;
};

class LineHolder {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kMaxLine = 1U << 20;  // bytes
  static constexpr std::chrono::milliseconds kPatience{2'000};

  // `show` gets what is to be written now, in this order, and from inside the calls alone, those of
  // other holders of `held` too; of a line that was held several pieces, one right after the other.
  LineHolder(std::shared_ptr<HeldBytes> held, std::function<void(const Output&)> show);
  ~LineHolder();
  LineHolder(const LineHolder&) = delete;
  LineHolder& operator=(const LineHolder&) = delete;

  // Somebody may have to answer this rank, which waits so long for the end of a line.
  void set_patience(std::uint32_t rank, std::chrono::milliseconds patience) {
    patience_[rank] = patience;
  }

  // `is_open`: the last line that was shown is this source's and goes on, so there is nothing that
  // could come in between, and nothing is held.
  void add(Output message, bool is_open, TimePoint now);
  // The stream has ended: what is held of it is shown.
  void end(std::uint32_t rank, OutputStream stream);
  // The rank whose line's time is over, the first of them. All else that has come from this rank
  // goes before it is shown in parts.
  std::optional<std::uint32_t> due(TimePoint now) const;
  // Shows what is held of one line whose time is over, or of any when `all`. False: there is none.
  bool show_due(TimePoint now, bool all);

  bool empty() const { return lines_.empty(); }
  // Only when not empty.
  TimePoint next_due() const { return due_.begin()->first; }

 private:
  using Source = std::pair<std::uint32_t, OutputStream>;
  struct Line {
    std::vector<Output> pieces;
    std::size_t bytes = 0;
    std::size_t memory = 0;
    TimePoint due;
  };
  using Lines = std::map<Source, Line>;

  std::chrono::milliseconds patience_of(std::uint32_t rank) const;
  void hold(Output message, TimePoint now);
  void release(Lines::iterator line);
  static void make_room(HeldBytes& held);
  void count(Line& line, std::size_t memory);

  std::shared_ptr<HeldBytes> held_;
  std::function<void(const Output&)> show_;
  std::map<std::uint32_t, std::chrono::milliseconds> patience_;  // of ranks with one of their own
  Lines lines_;                                                  // none is empty
  std::set<std::pair<TimePoint, Source>> due_;                   // of each line
};

}  // namespace hvdrun
