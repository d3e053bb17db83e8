// A rank's submissions that it waits for: for whoever looks for the cause of a stall.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

struct PendingReport {
  static constexpr std::size_t kMost = 16;

  struct Item {
    std::string name;  // or what it is, for one without a name
    std::chrono::milliseconds age{};
    std::vector<int> ranks{};  // of the job, that take part, in order; empty: all
  };
  std::vector<Item> oldest;     // first, at most kMost
  std::uint64_t pending = 0;    // in all
  std::uint64_t submitted = 0;  // since the beginning
  std::string last_submitted;   // empty: nothing yet
  std::chrono::steady_clock::time_point last_submitted_at{};
  bool joined = false;  // waits in join() for the others, and is missing from nothing
};

}  // namespace hvdrun
