// Connections that turn out not to belong to the job, by where they come from: what is said of them
// is bounded, however many there are. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time_point.h"

namespace hvdrun {

class Strangers {
 public:
  // Addresses that are told apart; further ones are counted together.
  static constexpr std::size_t kMaxAddresses = 16;
  // Between two lines about one address: at first, and at most. It doubles with each.
  static constexpr std::chrono::milliseconds kFirstPause{1'000};
  static constexpr std::chrono::milliseconds kLongestPause{600'000};

  // One more from there. What is to be said now: each address's first connection, with the reason.
  std::optional<std::string> refused(const std::string& address, const std::string& why,
                                     TimePoint now);
  // The lines to be said now of those that came since.
  std::vector<std::string> take_counts(TimePoint now);
  // When take_counts() has something; none: before another one comes.
  std::optional<TimePoint> next_deadline() const;

 private:
  struct From {
    std::uint64_t unsaid = 0;
    std::chrono::milliseconds pause = kFirstPause;
    TimePoint next;  // not before that
  };
  std::map<std::string, From> from_;
};

}  // namespace hvdrun
