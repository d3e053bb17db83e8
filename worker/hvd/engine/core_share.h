// A waiting rank's right to keep a core busy: never one that another thread of the job could use.
#pragma once

#include <cstdint>

namespace hvdrun {

struct CoreShare {
  std::uint64_t cores = 1;            // of this host that the job may use
  std::uint64_t ranks = 1;            // on this host
  std::uint64_t compute_threads = 1;  // of a rank

  // All threads at once, with so many engine threads in each rank. Ranks are taken to be alike.
  bool fits(std::uint64_t engine_threads) const {
    return ranks * (compute_threads + engine_threads) <= cores;
  }
};

}  // namespace hvdrun
