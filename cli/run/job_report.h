// The verdict on a job in words: the first cause, its last words, and the others as its victims.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "common/host/topology.h"
#include "common/wire/messages.h"

namespace hvdrun {

// One line without a line end; empty for success.
std::string describe_cause(const JobEnded& verdict);

// The whole block for the user, cause first. `last_lines`: the end of the first cause's stderr.
// No lines for success.
std::vector<std::string> describe_failure(const JobEnded& verdict,
                                          const std::vector<std::string>& last_lines);

// Those with ranks that nobody could report the end of.
std::set<std::uint32_t> lost_hosts(const JobEnded& verdict, const RankTable& ranks);

}  // namespace hvdrun
