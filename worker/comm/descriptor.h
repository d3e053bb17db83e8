// What a rank says it is calling, so that the ranks can compare.
#pragma once

#include <cstdint>
#include <string>

#include <hvd/hvd.h>

namespace hvdrun {

// The numbers stand in shared memory; 0 is memory that nobody has written.
enum class OpKind : std::uint8_t { barrier = 1, allreduce = 2, broadcast = 3, allgather = 4 };

struct Descriptor {
  std::uint64_t count = 0;
  std::uint64_t sequence = 0;  // operations before this one
  OpKind kind = OpKind::barrier;
  hvd::DataType type = hvd::DataType::float32;  // float32 where there is no data
  hvd::ReduceOp op = hvd::ReduceOp::sum;        // sum where nothing is reduced
  std::uint8_t zero = 0;
  std::uint32_t root = 0;

  bool operator==(const Descriptor&) const = default;
};

// "allreduce(float32, 8 elements, average)"
std::string describe(const Descriptor& descriptor);

}  // namespace hvdrun
