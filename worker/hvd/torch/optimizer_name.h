// The ranks' names of the operations of one distributed optimizer.
#pragma once

#include <cstdint>
#include <string>

#include <hvd/hvd.h>

namespace hvdrun {

// One more than of any optimizer of this process set so far in this process. Ranks take the highest
// of theirs: a process may have lived in a job before this one. Any thread.
std::int64_t next_optimizer_number(const hvd::ProcessSet& set);

// "DistributedOptimizer.3"; the next number is above that.
std::string optimizer_name(const hvd::ProcessSet& set, std::int64_t number);

}  // namespace hvdrun
