// The time between two starts of a job: there is no coordinator and no rank, but the job can be
// asked for its status and ended by a signal.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "cli/plan/launch_plan.h"

namespace hvdrun {

struct RestartWait {
  std::uint32_t restart = 0;  // the number of the next start
  std::chrono::milliseconds pause{};
  // The job was first started then.
  std::chrono::steady_clock::time_point began;
  // --timeout: the job's time is over then.
  std::optional<std::chrono::steady_clock::time_point> deadline;
};

// Says that a signal has ended the job before this start; the exit code.
int ended_before_restart(int signal, std::uint32_t restart);

// Says that the job's time was over before; the exit code.
int timed_out_before_restart();

// Returns nothing when the pause is over, or the exit code with which hvdrun is to end at once; the
// user has been told why. The process must have one thread.
std::optional<int> wait_for_restart(const LaunchPlan& plan, const RestartWait& wait);

}  // namespace hvdrun
