// The id of the whole job's NCCL communicator: made in rank 0's process, carried to all ranks by
// the fence of hvd::init, used at the first operation on GPU memory.
#pragma once

#include <optional>
#include <string>

#include "worker/hvd/api/select_gpu.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun {

// For the fence: rank 0's id as bytes. Empty on other ranks, on the CPU and for a job of one rank.
// So it is where NCCL cannot be used: nobody's fault before there is an operation that needs it.
std::string make_world_id(const GpuChoice& choice, int rank, int size,
                          const EnvironmentLookup& lookup);

// The id that the fence has brought; none when those are no bytes of one.
std::optional<nccl::UniqueId> world_id_of(const std::string& blob);

}  // namespace hvdrun
