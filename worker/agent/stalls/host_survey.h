// The words of a host's workers about operations that wait. Their own reports go up together, one
// frame for all; the coordinator's question goes to all that have joined, and is answered when they
// have, or after a moment. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "common/base/time_point.h"
#include "common/wire/stall_messages.h"

namespace hvdrun {

class HostSurvey {
 public:
  // A rank's last words, and whether they were the answer to the question.
  struct Said {
    bool answered = false;
    StallReport report;
  };
  struct Answer {
    std::uint64_t request = 0;
    std::map<std::uint32_t, Said> ranks;  // those that have ever said something
  };

  // A worker says that it waits.
  void reported(std::uint32_t rank, StallReport report, TimePoint now);
  // The coordinator asks, and `ranks` have been told; a question of before is forgotten.
  void ask(std::uint64_t request, std::set<std::uint32_t> ranks, TimePoint now);
  void answered(std::uint32_t rank, std::uint64_t request, StallReport report);
  // The rank's line has ended; what it said is not true any more.
  void gone(std::uint32_t rank);

  // The notice to be sent up now.
  std::optional<RankStalled> take_notice(TimePoint now);
  std::optional<Answer> take_answer(TimePoint now);
  // When to ask for it at the latest.
  std::optional<TimePoint> next_deadline() const;

 private:
  std::map<std::uint32_t, Said> said_;
  std::optional<RankStalled> notice_;  // of the rank that has waited longest
  TimePoint notice_at_{};
  std::optional<std::uint64_t> request_;
  std::set<std::uint32_t> waiting_;  // for their answers
  TimePoint answer_by_{};
};

}  // namespace hvdrun
