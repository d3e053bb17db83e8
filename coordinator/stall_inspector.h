// When ranks that wait in vain are looked into: at most once in a warning time, and once more when
// the shutdown time has passed. And what is found: who waits for whom. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time_point.h"
#include "coordinator/membership.h"
#include "coordinator/rank_survey.h"

namespace hvdrun {

// The oldest operation for which ranks are missing; if none is missing anywhere, the oldest. An
// operation is for all ranks, or those of its process set.
struct Stall {
  std::string tensor;
  std::uint64_t age_ms = 0;             // on the rank that waits longest
  std::uint64_t others = 0;             // further operations that such a rank waits for
  std::vector<std::uint32_t> waiting;   // ranks that have submitted it
  std::vector<std::uint32_t> missing;   // that have not, or cannot say so
  std::vector<std::uint32_t> too_many;  // that wait for more than they name, and do not name it
  std::vector<std::uint32_t> in_join;   // that wait in hvd::join, and are not missing
  bool of_set = false;                  // a process set's: the ranks outside it are nowhere here
  // Operations that other ranks are missing for, the oldest first: where ranks wait for each other,
  // one alone does not show it. They have none of these themselves.
  std::vector<Stall> also;
  std::uint64_t more = 0;  // than these
};

// Nothing when no operation has waited for `at_least`. Others that have been pending for half as
// long belong to it.
std::optional<Stall> find_stall(const SurveyedRanks& ranks, const Membership& members,
                                std::chrono::milliseconds at_least);

class StallInspector {
 public:
  // 0: never.
  StallInspector(std::chrono::milliseconds warning, std::chrono::milliseconds shutdown)
      : warning_(warning), shutdown_(shutdown) {}

  // A rank says that its oldest operation has waited so long.
  void noticed(std::uint64_t age_ms, TimePoint now);
  // The ranks are to be asked now. To be called when nobody is being asked; true only once.
  bool take_round(TimePoint now);

  enum class Say : std::uint8_t { nothing, warning, shutdown };
  struct Verdict {
    Say say = Say::nothing;
    Stall stall;
  };
  // The meaning of their answers.
  Verdict judge(const SurveyedRanks& ranks, const Membership& members) const;

  // When take_round() wants to be called at the latest.
  std::optional<TimePoint> next_deadline() const;

 private:
  std::chrono::milliseconds warning_;
  std::chrono::milliseconds shutdown_;
  std::optional<TimePoint> round_at_;  // the next, wanted one
  std::optional<TimePoint> last_round_;
};

}  // namespace hvdrun
