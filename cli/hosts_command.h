// hvdrun hosts and hvdrun reload: what a running job's hosts are to be.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// The words behind `hosts`: [JOB] add|drain|remove HOST[:SLOTS]... Returns the exit code of hvdrun.
// Throws UsageError.
int run_hosts(const std::vector<std::string>& words);
// The words behind `reload`: [JOB].
int run_reload(const std::vector<std::string>& words);

}  // namespace hvdrun
