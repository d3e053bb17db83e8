// Folds lines that many ranks write within a short time into one. A line waits until every rank
// has written it, until its time is over, or until too much waits; lines leave in the order in
// which they first came, so each rank's stay in order. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "common/messages.h"

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
  bool empty() const { return entries_.empty(); }
  // The last that came of this rank and stream was a part of a line.
  bool mid_line(std::uint32_t rank, OutputStream stream) const;
  // When the next one is due; only when not empty.
  TimePoint next_due() const { return entries_.front().since + kWindow; }

 private:
  struct Entry {
    FoldedLine folded;
    TimePoint since;
  };
  struct Key {
    OutputStream stream{};
    std::string_view line;  // of the entry; entries of a deque do not move
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const {
      return std::hash<std::string_view>()(key.line) ^ static_cast<std::size_t>(key.stream);
    }
  };

  static std::uint64_t source(std::uint32_t rank, OutputStream stream) {
    return std::uint64_t{rank} << 8 | static_cast<std::uint64_t>(stream);
  }
  void add_line(std::uint32_t rank, OutputStream stream, std::string_view line, bool partial,
                TimePoint now);

  std::uint32_t size_;
  std::deque<Entry> entries_;
  std::uint64_t first_ = 0;  // the number of entries_.front(); they count up
  std::size_t bytes_ = 0;
  std::unordered_map<Key, std::deque<std::uint64_t>, KeyHash> waiting_;  // entries with this line
  // The number after the last entry of each rank: it joins none before it.
  std::unordered_map<std::uint32_t, std::uint64_t> next_of_;
  std::unordered_set<std::uint64_t> mid_line_;  // sources whose last bytes ended no line
};

}  // namespace hvdrun
