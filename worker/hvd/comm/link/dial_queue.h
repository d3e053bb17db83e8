// The ranks that are dialed now, and those that are later. Many at once would only fill the other
// ends' backlogs, so there are so many at a time. Whoever hangs up before a word, being full, is
// dialed again after a while. Sans-I/O.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace hvdrun {

class DialQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kAtOnce = 256;
  static constexpr int kMostTries = 6;
  static constexpr std::chrono::milliseconds kFirstPause{50};  // then twice as long each time

  DialQueue() = default;
  // They are dialed in this order.
  explicit DialQueue(std::vector<std::size_t> ranks) : ranks_(std::move(ranks)) {}

  // The next one to be dialed now; it is under way from then on. Nothing: later, or never.
  std::optional<std::size_t> next(TimePoint now);
  // It is connected.
  void done(std::size_t rank);
  // It hung up. True: it is dialed again after a pause; false: that was often enough.
  bool again(std::size_t rank, TimePoint now);
  // When next() has one, long ago if it has one now; nothing: once another one is done.
  std::optional<TimePoint> wakes_at() const;

 private:
  std::vector<std::size_t> ranks_;
  std::size_t position_ = 0;          // of ranks_, the first that was not dialed yet
  std::map<std::size_t, int> tries_;  // of those that hung up
  std::multimap<TimePoint, std::size_t> pausing_;
  std::size_t under_way_ = 0;
};

}  // namespace hvdrun
