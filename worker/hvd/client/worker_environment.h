// A worker's environment: its place in the job, the way to the agent, deadlines.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/host/rank_place.h"

namespace hvdrun {

// Looks a variable up; nothing when it is not set. Tests pass their own.
using EnvironmentLookup = std::function<std::optional<std::string>(const char* name)>;
std::optional<std::string> process_environment(const char* name);

// The HVD_* variables that the launcher sets for every worker: its place, except the host's index.
struct WorkerEnvironment : RankPlace {
  std::string agent;   // a Unix socket: a path, or '@' and an abstract name
  std::string job_id;  // 32 hexadecimal digits
  std::uint32_t epoch = 0;
  bool is_late = false;  // the job ran already when this process was started
};

// Nothing when no launcher set anything. Throws Error(unavailable), naming the variable, when only
// a part is there or a value makes no sense.
std::optional<WorkerEnvironment> read_worker_environment(const EnvironmentLookup& lookup);

// A warning line when the environment shows ranks of another launcher; nothing otherwise.
std::optional<std::string> foreign_launcher_warning(const EnvironmentLookup& lookup);

// Seconds, decimals allowed, or `fallback` when `name` is not set. Throws Error(invalid_argument).
std::chrono::milliseconds read_timeout(const EnvironmentLookup& lookup, const char* name,
                                       std::chrono::milliseconds fallback);

// The bytes of small operations that may run as one: HVD_FUSION_THRESHOLD, else
// HOROVOD_FUSION_THRESHOLD, in bytes, 0 for none; `fallback` when neither is set. Throws
// Error(invalid_argument).
std::uint64_t read_fusion_threshold(const EnvironmentLookup& lookup, std::uint64_t fallback);

// With how many threads this process computes: OMP_NUM_THREADS, which the launcher sets; 1 when it
// is not set or no number.
std::uint32_t compute_threads(const EnvironmentLookup& lookup);

}  // namespace hvdrun
