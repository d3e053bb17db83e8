// The cores of a host, shared by its ranks between decoding images and computing. No LibTorch in
// here.
#pragma once

#include <cstddef>

namespace hvdrun {

struct ThreadPlan {
  std::size_t decoding = 1;
  std::size_t computing = 1;
};

struct ThreadDemand {
  std::size_t cores = 1;  // of the host, that its ranks may use: usable_cores()
  int local_ranks = 1;
  std::size_t computing = 1;  // threads that LibTorch would take (OMP_NUM_THREADS)
  std::size_t decoding = 0;   // as the user says; 0: nothing is said
  bool on_gpu = false;
};

// Both kinds together are no more than a rank's share of the cores, where that is two or more; a
// rank with one core has one thread of each kind. On a CPU computing takes most of them; on a GPU
// it takes one that feeds the device, all others decode. What the user says of decoding is taken as
// it is, and leaves computing alone.
ThreadPlan plan_threads(const ThreadDemand& demand);

}  // namespace hvdrun
