// What ranks call the operations of one distributed optimizer.
#pragma once

#include <string>

#include <hvd/hvd.h>

namespace hvdrun {

// "DistributedOptimizer.0" for the first one of this process set, and so on: ranks make those of a
// set in the same order, so a number names one on all of them. Any thread.
std::string next_optimizer_name(const hvd::ProcessSet& set);

}  // namespace hvdrun
