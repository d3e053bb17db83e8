// More elements than a 32-bit count holds.
#include <fstream>
#include <string>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

constexpr std::size_t kCount = (std::size_t{1} << 31) + 11;
constexpr std::size_t kNeeded = 12U << 20;  // KiB

std::size_t available_kib() {
  std::ifstream lines("/proc/meminfo");
  for (std::string line; std::getline(lines, line);)
    if (line.rfind("MemAvailable:", 0) == 0) return std::stoull(line.substr(13));
  return 0;
}

std::uint8_t huge_value(std::size_t rank, std::size_t i) {
  return static_cast<std::uint8_t>((rank + 1) * (i ^ i >> 24));
}

void expect_sums(const std::uint8_t* data) {
  for (std::size_t i = 0; i < kCount; ++i)
    if (data[i] != static_cast<std::uint8_t>(3 * (i ^ i >> 24)))
      throw std::runtime_error("wrong sum at " + std::to_string(i));
}

}  // namespace

TEST_CASE("more than 2^31 elements", "[comm][soak]") {
  if (soak_count(100) < 100 || available_kib() < kNeeded) {
    WARN("left out: takes 12 GB and a full soak (HVD_TEST_PERCENT=100)");
    return;
  }
  RankThreads ranks(2);
  const bool shared = GENERATE(false, true);
  CAPTURE(shared);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          const auto rank = static_cast<std::size_t>(communicator.rank());
          BufferSource* const source = shared ? &ranks.buffers(communicator.rank()) : nullptr;
          const Reduction sum{hvd::DataType::uint8, hvd::ReduceOp::sum};
          const Buffer buffer(kCount, 0, source);
          auto* const data = reinterpret_cast<std::uint8_t*>(buffer.data());
          const auto fill = [&] {
            for (std::size_t i = 0; i < kCount; ++i) data[i] = huge_value(rank, i);
          };
          fill();
          communicator.allreduce(data, data, kCount, sum, {});
          expect_sums(data);
          fill();
          communicator.broadcast(data, kCount, hvd::DataType::uint8, 1, {});
          for (std::size_t i = 0; i < kCount; ++i)
            if (data[i] != huge_value(1, i))
              throw std::runtime_error("wrong broadcast at " + std::to_string(i));
          // Each has about half; both halves together are too many for 32 bits with a sign.
          const std::size_t counts[] = {kCount / 2, kCount - kCount / 2};
          const std::size_t begin = rank * counts[0];
          std::fill_n(data, kCount, std::uint8_t{0});
          std::fill_n(data + begin, counts[rank], static_cast<std::uint8_t>(rank + 1));
          communicator.allgather(data + begin, data, counts, hvd::DataType::uint8, {});
          for (std::size_t i = 0; i < kCount; ++i)
            if (data[i] != (i < counts[0] ? 1 : 2))
              throw std::runtime_error("wrong gather at " + std::to_string(i));
        })) == "");
}
