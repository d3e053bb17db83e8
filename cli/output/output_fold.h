// Folds lines that many ranks write within a short time into one. Each rank's lines wait in its own
// queue. When all ranks have the same line in front it leaves as one; otherwise the oldest leaves
// when its time is over or too much waits, with the ranks that have it too. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "common/wire/messages.h"

namespace hvdrun {

struct FoldedLine {
  std::vector<std::uint32_t> ranks;  // sorted
  OutputStream stream{};
  std::string line;      // with its end
  bool partial = false;  // a part of a line, of one rank, or what follows one
};

class OutputFold {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kWindow{200};
  static constexpr std::size_t kMaxBytes = 256U << 10;  // of lines that wait, with their overhead

  explicit OutputFold(std::uint32_t size) : size_(size) {}

  void add(const Output& message, TimePoint now);
  // The next line to show, if one is due. `all`: whatever waits is.
  bool take(TimePoint now, bool all, FoldedLine& line);
  bool empty() const { return lanes_.empty(); }
  // The last that came of this rank and stream was a part of a line.
  bool mid_line(std::uint32_t rank, OutputStream stream) const;
  // When the next one is due; only when not empty.
  TimePoint next_due() const { return oldest().since + kWindow; }

 private:
  struct Line {
    OutputStream stream{};
    std::string text;
    bool partial = false;
    std::size_t hash = 0;
    std::uint64_t number = 0;  // of all lines, in the order in which they came
    TimePoint since;
    bool operator==(const Line& other) const {
      return hash == other.hash && !partial && !other.partial && stream == other.stream &&
             text == other.text;
    }
  };

  static std::uint64_t source(std::uint32_t rank, OutputStream stream) {
    return std::uint64_t{rank} << 8 | static_cast<std::uint64_t>(stream);
  }
  void add_line(std::uint32_t rank, Line line);
  const Line& oldest() const { return lanes_.at(fronts_.begin()->second).front(); }
  bool all_have_it() const;
  std::uint32_t who_is_next() const;
  void pop(std::uint32_t rank);

  std::uint32_t size_;
  std::map<std::uint32_t, std::deque<Line>> lanes_;           // by rank; none is empty
  std::set<std::pair<std::uint64_t, std::uint32_t>> fronts_;  // number and rank of each front
  std::unordered_map<std::size_t, std::size_t> like_;         // lines that wait, by hash
  std::uint64_t next_number_ = 0;
  std::size_t bytes_ = 0;
  std::unordered_set<std::uint64_t> mid_line_;  // sources whose last bytes ended no line
};

}  // namespace hvdrun
