#include <algorithm>
#include <limits>
#include <vector>

#include "tests/catch.h"
#include "tests/turns.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/reference.h"
#include "worker/hvd/comm/reduce/copy.h"

using namespace hvdrun;
using namespace hvdrun::test;

TEST_CASE("a streaming copy copies these bytes and no others", "[comm]") {
  constexpr std::size_t kMost = 400;
  constexpr auto kUntouched = std::byte{0xEE};
  std::vector<std::byte> source(kMost + 64);
  for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 7 % 251);
  for (const std::size_t from : {0, 1, 16, 63}) {
    for (std::size_t to = 0; to <= 64; ++to) {
      for (const std::size_t bytes : {0, 1, 15, 63, 64, 65, 127, 128, 129, 200, 399, 400}) {
        std::vector<std::byte> target(kMost + 192, kUntouched);
        std::vector<std::byte> expected = target;
        std::copy_n(source.data() + from, bytes, expected.data() + 64 + to);
        stream_bytes(target.data() + 64 + to, source.data() + from, bytes);
        if (target != expected) FAIL("from " << from << " to " << to << ": " << bytes << " bytes");
      }
    }
  }
  CHECK(copy_for(0) == copy_bytes);
  CHECK(copy_for(std::numeric_limits<std::size_t>::max()) == stream_bytes);
}

TEST_CASE("what is copied past the caches arrives before its rank does", "[comm]") {
  if (!takes_turn(3)) return;
  if (!kThorough) {
    WARN("left out: a sanitizer sees no copy past the caches, and two minutes of others");
    return;
  }
  // Elements of each rank. Machines with larger caches than this streams for leave it to the test
  // above.
  std::size_t count = (8U << 20) / sizeof(double) + 1;
  while (copy_for(count * sizeof(double)) != stream_bytes && count < (64U << 20) / sizeof(double))
    count *= 2;
  RankThreads ranks(2);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          std::uint64_t round = 0;
          for (const OpKind kind : {OpKind::broadcast, OpKind::allgather, OpKind::alltoall}) {
            for (const auto memory : {Case::Memory::heap, Case::Memory::shared}) {
              Case c;
              c.kind = kind;
              c.reduction.type = hvd::DataType::float64;
              c.count = kind == OpKind::broadcast ? count : count / 2;
              c.memory = memory;
              c.misalign = ++round % 2;
              c.round = round;
              check_collective(c, communicator, {.may_spin = true},
                               &ranks.buffers(communicator.rank()));
            }
          }
        })) == "");
}
