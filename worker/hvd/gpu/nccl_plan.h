// The parts of NCCL and of our kernels in a reduction of hvd's. Sans-I/O.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <hvd/hvd.h>

#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun {

struct NcclReduction {
  nccl::DataType type = nccl::float32;
  nccl::RedOp op = nccl::sum;
  // NCCL multiplies each input by this scalar and sums (ncclRedOpCreatePreMulSum); `op` is unused.
  bool premultiply = false;
  std::array<std::byte, 8> scalar = {};  // in `type`
  // By our kernels: the inputs times this before, the result times that after; 1: nothing to do.
  double before = 1;
  double after = 1;
  bool normalise = false;  // booleans: the result's bytes become 0 or 1
  // min and max of floating-point numbers: NCCL ignores a NaN there, so it gets integers of their
  // order, `type`, with the factors in them, which our kernels make and take back.
  bool ordered = false;
  bool needs_kernels() const { return before != 1 || after != 1 || normalise || ordered; }
};

// Throws Error(invalid_argument) for 16-bit integers, which NCCL cannot reduce.
NcclReduction plan_reduction(const Reduction& reduction, int ranks);

// A piece of a buffer, whose keys stand at `at` among those of its round.
struct KeyPiece {
  std::size_t part = 0;
  std::size_t begin = 0;
  std::size_t count = 0;
  std::size_t at = 0;
};
// Buffers of these counts cut into rounds of `most` elements.
std::vector<std::vector<KeyPiece>> key_rounds(const std::vector<std::size_t>& counts,
                                              std::size_t most);
// The same for what is scattered: in round k each rank's part gives elements from k * each on, as
// many as there are, `each` at most; 0 for no elements at all. One round if `most` allows.
std::size_t scattered_each(const std::vector<std::size_t>& counts, std::size_t most);

// The ranks that exchange vectors in a round of the adaptive sum. The ranks are combined in pairs,
// then the pairs in pairs and so on, in the order of the ranks (worker/hvd/comm/adasum.h). A round
// joins two neighbouring groups, and everybody of both has the same sum after it.
struct AdasumRound {
  int from = -1;        // whose vector comes; this rank itself: its group waits for a later round
  std::vector<int> to;  // who gets this rank's; several where the other group is the larger one
  bool first = true;    // this rank's group is the one of lower ranks
};
std::vector<AdasumRound> adasum_rounds(int rank, int size);

// Elements that only move go as numbers of the same size or as bytes: `count` becomes NCCL's.
nccl::DataType moved_type(hvd::DataType type, std::size_t& count);

}  // namespace hvdrun
