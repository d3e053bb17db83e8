// What a rank says it is calling, so that the ranks can compare.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <hvd/hvd.h>

#include "worker/comm/reduce.h"

namespace hvdrun {

// The numbers stand in shared memory; 0 is memory that nobody has written.
enum class OpKind : std::uint8_t {
  barrier = 1,
  allreduce = 2,
  broadcast = 3,
  allgather = 4,
  reducescatter = 5,
  alltoall = 6,
};

struct Descriptor {
  std::uint64_t count = 0;     // elements in all; of an alltoall 0, as each rank has its own
  std::uint32_t sequence = 0;  // operations before this one, modulo 2^32
  std::uint32_t counts = 0;    // fingerprint of how the elements are spread over the ranks
  OpKind kind = OpKind::barrier;
  hvd::DataType type = hvd::DataType::float32;  // float32 where there is no data
  hvd::ReduceOp op = hvd::ReduceOp::sum;        // sum where nothing is reduced
  std::uint8_t zero = 0;
  std::uint32_t detail = 0;  // broadcast: the root; a reduction: fingerprint of the scale factors

  bool operator==(const Descriptor&) const = default;
};
static_assert(sizeof(Descriptor) == 24);

// Not 0 for anything but factors of 1.
std::uint32_t scale_fingerprint(const Reduction& reduction);
// Not 0 for anything but equal counts.
std::uint32_t counts_fingerprint(const std::size_t* counts, std::size_t ranks);

// "allreduce(float32, 8 elements, average)"
std::string describe(const Descriptor& descriptor);
// "0.3 s"
std::string seconds_text(std::chrono::milliseconds time);
// What is wrong when the two sides of an alltoall disagree.
std::string counts_differ(std::size_t sender, std::uint64_t sent, std::size_t receiver,
                          std::uint64_t expected);

}  // namespace hvdrun
