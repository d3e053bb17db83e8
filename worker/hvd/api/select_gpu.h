// Where this rank computes, decided by all ranks together.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "worker/hvd/client/worker_environment.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/gpu/rank_gpu.h"

namespace hvdrun {

// "1": several ranks may have one GPU, for tests. NCCL allows it only ranks that it takes for those
// of other hosts (NCCL_HOSTID).
inline constexpr const char* kShareGpuVariable = "HVD_SHARE_GPU";

// This rank's choice, before anything of CUDA's is made in the process.
struct GpuChoice {
  SelectedDevice selected;          // no device: the CPU
  std::optional<hvd::Error> error;  // there are GPUs, but not for this rank
  bool may_share = false;
};
GpuChoice choose_gpu(const EnvironmentLookup& lookup, int local_rank, int local_size);

// The same for a process that takes the place of a lost one, before it comes to its door, where
// nobody waits for it: waits until the driver has given back what the dead have left on its GPU,
// for a while, and says so where it has not.
GpuChoice choose_gpu_of_lost(const EnvironmentLookup& lookup, int local_rank, int local_size);

// By all ranks. Throws the own error, or Error(unavailable) on every rank when some have a GPU and
// some have not, or two the same. Where no rank has one it costs an allreduce of one number.
void agree_on_gpus(const GpuChoice& own, Communicator& communicator,
                   std::chrono::milliseconds timeout);

// Null when this rank computes on the CPU.
std::shared_ptr<RankGpu> take_gpu(GpuChoice choice, const EnvironmentLookup& lookup,
                                  GpuWatch::OnTrouble on_trouble);

// The version of the library that the rank would load; 0: of none. Any thread.
int usable_nccl_version(const EnvironmentLookup& lookup);

}  // namespace hvdrun
