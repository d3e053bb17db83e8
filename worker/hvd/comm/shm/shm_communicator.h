// Collectives between the ranks of one host, over one shared mapping.
//
// Two ranks reduce every chunk whole. Large buffers of more pass through staging slots in chunks.
// Every rank copies its chunk into its slot but for its own slice. It reduces that slice over all
// ranks in their order, and copies the other slices out. Small ones are reduced whole by everybody.
// Large ones that lie in SharedMemory on every rank are not copied at all: each rank reads the
// others' inputs and writes the others' outputs. The order is the same everywhere, so the bits do
// not depend on the path.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "worker/hvd/comm/abort_signal.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/shm/mapping.h"
#include "worker/hvd/comm/shm/shared_memory.h"

namespace hvdrun {

inline constexpr std::size_t kMaxShmRanks = 4096;  // of one host

// The mapping holds the control area (0.5 KiB per rank, see meeting.h) and two slots per rank (see
// staging.h): about 521 KiB per rank, whatever the size of the buffers; 256 ranks need 130 MiB.
std::size_t shm_segment_bytes(std::size_t ranks);

struct ShmOptions {
  int rank = 0;  // on this host
  int size = 1;
  // The job's numbers of the ranks, for words and for SharedMemory; none: 0, 1, 2 and so on.
  std::vector<std::size_t> ranks = {};
  // The threads of all ranks fit the cores, so that a waiting one may spin.
  bool may_spin = false;
  // This rank's; every rank has one, or none has.
  std::shared_ptr<SharedMemory> memory = {};
  // Ends waits, if there.
  std::shared_ptr<const AbortSignal> abort = {};
};

// `mapping` is zeroed memory of shm_segment_bytes(size) that all ranks share and that carries one
// communicator in its life.
std::unique_ptr<HostCommunicator> make_shm_communicator(std::shared_ptr<const Mapping> mapping,
                                                        const ShmOptions& options);

}  // namespace hvdrun
