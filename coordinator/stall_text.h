// Ranks that others wait for, in words.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "coordinator/membership.h"
#include "coordinator/rank_survey.h"
#include "coordinator/stall_inspector.h"

namespace hvdrun {

// A text names so many ranks; the others are counted.
inline constexpr std::size_t kNamedRanks = 8;

std::string rank_on_host(std::uint32_t rank, const Membership& members);

// "  rank 3 on gpu2 (pid 4711, python3): stopped in do_signal_stop": what the processes of the
// first of them do, a line for the kernel's stack where it is shown, and how many there are
// besides.
std::vector<std::string> missing_lines(const std::vector<std::uint32_t>& missing,
                                       const SurveyedRanks& ranks, const Membership& members);

// For the user: a line that names the operation and who waits for whom, then the missing ranks with
// what they have submitted last; and the same for the event log.
StallWarning stall_warning(const Stall& stall, bool ends_job, const SurveyedRanks& ranks,
                           const Membership& members);
// For the verdict: "tensor 'grad' had waited 60 s for rank 2 on gpu1".
std::string stall_cause(const Stall& stall, const Membership& members);

}  // namespace hvdrun
