// A question to all hosts: what do your ranks do? One at a time; a host that does not answer in
// time is left out. Sans-I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/time_point.h"
#include "common/wire/stall_messages.h"

namespace hvdrun {

// By rank; those of hosts that have not answered are not there, nor are ranks without a process.
using SurveyedRanks = std::map<std::uint32_t, RankPicture>;

class RankSurvey {
 public:
  // The hosts will be asked under the number that is returned; only when none is open.
  std::uint64_t open(std::set<std::uint32_t> hosts, TimePoint now);
  bool is_open() const { return open_; }
  void answered(std::uint32_t host, RankPictures message);
  // What was said, when everybody has or the time is over; then no survey is open any more.
  std::optional<SurveyedRanks> take(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  bool open_ = false;
  std::uint64_t request_ = 0;
  std::set<std::uint32_t> waiting_;  // hosts
  TimePoint deadline_{};
  SurveyedRanks ranks_;
};

}  // namespace hvdrun
