// A rank's place in a job: a row of the rank table (common/host/topology.h), here and on the wire.
// What is told of a rank, to its agent or to itself, has these numbers as its base.
#pragma once

#include <cstdint>

namespace hvdrun {

struct RankPlace {
  std::uint32_t rank = 0;
  std::uint32_t host = 0;  // index into the list of hosts
  std::uint32_t local_rank = 0;
  std::uint32_t local_size = 1;
  std::uint32_t cross_rank = 0;
  std::uint32_t cross_size = 1;
  std::uint32_t size = 1;  // of the job
  template <class V>
  void visit(V& v) {
    v(rank);
    v(host);
    v(local_rank);
    v(local_size);
    v(cross_rank);
    v(cross_size);
    v(size);
  }
};

}  // namespace hvdrun
