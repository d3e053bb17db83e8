// A rank's words for what it is calling, so that the ranks can compare.
//
// Two ranks that say different things have not failed: everybody finds out at the same moment,
// before any memory of the caller was changed, throws Differs, and may call something else.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <hvd/hvd.h>

#include "worker/hvd/comm/reduce/reduce.h"

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
  std::uint64_t fingerprint = 0;  // CallOptions::fingerprint
  std::uint64_t count = 0;        // elements in all; of an alltoall 0, as each rank has its own
  OpKind kind = OpKind::barrier;
  hvd::DataType type = hvd::DataType::float32;  // float32 where there is no data
  hvd::ReduceOp op = hvd::ReduceOp::sum;        // sum where nothing is reduced
  std::uint8_t zero = 0;
  // broadcast: the root; else fingerprint of how the elements are spread over the ranks or, for
  // adasum, the tensors, and of the scale factors.
  std::uint32_t detail = 0;

  bool operator==(const Descriptor&) const = default;
};
static_assert(sizeof(Descriptor) == 24);

// The ranks called different operations; nothing is broken.
class Differs : public hvd::Error {
 public:
  explicit Differs(const std::string& what) : hvd::Error(hvd::ErrorCode::mismatch, what) {}
};

// Not 0 for anything but factors of 1.
std::uint32_t scale_fingerprint(const Reduction& reduction);
// Not 0 for anything but equal counts.
std::uint32_t counts_fingerprint(const std::size_t* counts, std::size_t ranks);
// The fingerprint of both; 0 only when both are.
std::uint32_t joint_fingerprint(std::uint32_t one, std::uint32_t other);

// "allreduce(float32, 8 elements, average)"
std::string describe(const Descriptor& descriptor);
// "0.3 s"
std::string seconds_text(std::chrono::milliseconds time);
// The words for an alltoall whose two sides disagree.
std::string counts_differ(std::size_t sender, std::uint64_t sent, std::size_t receiver,
                          std::uint64_t expected);

}  // namespace hvdrun
