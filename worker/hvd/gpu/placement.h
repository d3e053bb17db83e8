// Where the ranks of a job run, told to each other before a communicator is made: some on GPUs and
// some on CPUs, or two on one GPU, would otherwise be a hang or a riddle of NCCL's. Sans-I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "worker/hvd/gpu/cuda_api.h"

namespace hvdrun {

// One rank's, of fixed size, to be gathered from all: a record for each rank, in rank order.
struct Placement {
  std::uint8_t on_gpu = 0;
  std::uint8_t why_length = 0;     // on the CPU: the reason, cut to what fits
  std::array<char, 16> uuid = {};  // of the GPU: the same on every host
  std::array<char, 238> why = {};
};
static_assert(sizeof(Placement) == 256);

Placement placed_on_gpu(const cuda::Uuid& uuid);
Placement placed_on_cpu(const std::string& why);
// In one line, whatever a peer has sent.
std::string reason_of(const Placement& placement);

// Empty when all ranks run on CPUs, or each on a GPU of its own. Otherwise one line: which ranks do
// not fit, why, and what to do. With `may_share` (tests) several ranks may have one GPU.
std::string check_placements(std::span<const Placement> ranks, bool may_share = false);

}  // namespace hvdrun
