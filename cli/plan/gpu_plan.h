// The effect of --gpus on a plan.
#pragma once

#include <cstdint>
#include <optional>

#include "cli/options/gpu_option.h"
#include "cli/plan/launch_plan.h"

namespace hvdrun {

// Slots of this machine when nothing says how many: the GPUs that are listed for it, or without
// GPUs its cores. Nothing: as if there were no --gpus.
std::optional<std::uint32_t> slots_of_gpus(const GpuOption& gpus);

// Sets CUDA_VISIBLE_DEVICES for the ranks, the same for all of a host, over what the user's
// environment and -x have: a rank takes the one of its local rank. Throws UsageError for a host
// that the job does not have, and for more ranks than GPUs.
void plan_gpus(const GpuOption& gpus, LaunchPlan& plan);

}  // namespace hvdrun
