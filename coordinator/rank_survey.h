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
  // The reason for the question: an operation waits; ranks are missing in hvd::init, or among
  // Horovod's members; all have come to hvd::init, which does not get on.
  enum class About : std::uint8_t { stall, missing_in_init, missing_in_horovod, hang_in_init };

  // The hosts will be asked under the number that is returned; only when none is open.
  std::uint64_t open(About about, std::set<std::uint32_t> hosts, TimePoint now);
  // The subject of the last one.
  About about() const { return about_; }
  bool is_open() const { return open_; }
  void answered(std::uint32_t host, RankPictures message);
  // The answers, when everybody has given one or the time is over; then no survey is open any more.
  std::optional<SurveyedRanks> take(TimePoint now);
  std::optional<TimePoint> next_deadline() const;
  // Nobody wants the answers any more, and none of them is taken for one to the next question.
  void drop() { open_ = false; }

 private:
  bool open_ = false;
  About about_ = About::stall;
  std::uint64_t request_ = 0;
  std::set<std::uint32_t> waiting_;  // hosts
  TimePoint deadline_{};
  SurveyedRanks ranks_;
};

}  // namespace hvdrun
