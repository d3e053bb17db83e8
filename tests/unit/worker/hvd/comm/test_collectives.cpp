
#include <random>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/disturbance.h"
#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/reference.h"

using namespace hvdrun;
using namespace hvdrun::test;

TEST_CASE("every collective gives the serial result", "[comm]") {
  const int size = GENERATE(1, 2, 3, 4, 5, 6, 7, 8);
  if (!kThorough && size != 2 && size != 3) return;
  CAPTURE(size);
  RankThreads ranks(size, size <= 2);
  const std::vector<Case> cases = conformance_cases(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const Case& c : cases)
            check_collective(c, communicator, {.may_spin = true},
                             &ranks.buffers(communicator.rank()));
        })) == "");
}

TEST_CASE("a communicator of one rank gives the serial result", "[comm]") {
  const auto self = make_self_communicator();
  for (const Case& c : conformance_cases(1))
    CHECK_FALSE(error_of([&] { check_collective(c, *self, {}); }).has_value());
}

TEST_CASE("a long sequence of random operations stays in step", "[comm]") {
  const int size = GENERATE(2, 4);
  const auto seed = test::soak_seed("random operations, size " + std::to_string(size));
  CAPTURE(size, seed);
  const std::vector<Case> cases =
      random_cases(seed, test::soak_count(kThorough ? 10'000 : 2'000), size);
  // Ranks that fall behind at random places find every reuse of a slot.
  const Disturbance disturbance(seed);
  RankThreads ranks(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          std::mt19937_64 own(seed + static_cast<std::uint64_t>(communicator.rank()));
          for (const Case& c : cases)
            check_collective(c, communicator, {.may_spin = own() % 2 == 0},
                             &ranks.buffers(communicator.rank()));
        })) == "");
}

TEST_CASE("peers give back what its owner has freed", "[comm]") {
  RankThreads ranks(3);
  constexpr std::size_t kCount = 100'000;
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          SharedMemory& memory = ranks.memory(communicator.rank());
          for (int round = 0; round < 20; ++round) {
            const Buffer buffer(kCount * sizeof(float), 0, &ranks.buffers(communicator.rank()));
            auto* const data = reinterpret_cast<float*>(buffer.data());
            data[kCount - 1] = 1.0F;
            communicator.allreduce(data, data, kCount, {}, {});
            expect(data[kCount - 1] == 3.0F, "wrong sum");
            communicator.barrier({});
            expect(memory.mapped_peers() <= 2 * 2, "what was freed is still mapped");
          }
        })) == "");
  CHECK(ranks.segments().count() == 0);
}

TEST_CASE("memory that a rank does not have is refused", "[comm]") {
  RankThreads ranks(2);
  SharedMemory& memory = ranks.memory(0);
  CHECK(error_of([&] { memory.allocate(0); })->code == hvd::ErrorCode::invalid_argument);
  const Buffer buffer(10'000, 0, &ranks.buffers(0));
  const SharedPlace place = memory.find(buffer.data() + 100, 5000);
  CHECK(place.id != 0);
  CHECK(place.pages == 3);
  CHECK(place.offset == 100);
  CHECK(memory.find(buffer.data() + 100, 3 * 4096).id == 0);  // into the page behind
  CHECK(memory.find(buffer.data() - 1, 10).id == 0);
  SharedMemory& peer = ranks.memory(1);
  CHECK(peer.map(0, place, 5000) == reinterpret_cast<std::byte*>(buffer.data()) + 100);
  for (const auto& [wrong, bytes] : {std::pair{SharedPlace{place.id, place.pages, 12'288}, 1},
                                     std::pair{SharedPlace{place.id, place.pages, 100}, 12'289},
                                     std::pair{SharedPlace{place.id, 3, ~std::uint64_t{0}}, 2},
                                     std::pair{SharedPlace{0, 3, 0}, 1}})
    CHECK(error_of([&, &at = wrong, size = std::size_t(bytes)] { peer.map(0, at, size); })->code ==
          hvd::ErrorCode::internal);
}

TEST_CASE("small and large paths give the same bits", "[comm]") {
  // The first element of a large buffer went through slices, that of a small one did not.
  RankThreads ranks(3);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          const std::size_t large = 100'000;
          std::vector<float> buffer(large);
          for (std::size_t i = 0; i < large; ++i)
            buffer[i] = value_of<float>(7, static_cast<std::size_t>(communicator.rank()), i);
          std::vector<float> whole(large);
          const Reduction average{hvd::DataType::float32, hvd::ReduceOp::average};
          communicator.allreduce(buffer.data(), whole.data(), large, average, {});
          for (const std::size_t at : {0, 1, 33'333, 50'000, 99'990}) {
            std::vector<float> part(8);
            communicator.allreduce(buffer.data() + at, part.data(), 8, average, {});
            expect(std::memcmp(part.data(), whole.data() + at, 8 * sizeof(float)) == 0,
                   "other bits at " + std::to_string(at));
          }
        })) == "");
}

TEST_CASE("integer averages round toward zero and int32 ones do not overflow", "[comm]") {
  RankThreads ranks(2);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          const bool first = communicator.rank() == 0;
          std::vector<std::int32_t> data{first ? -3 : 0, first ? 3 : 0, 2'000'000'000,
                                         -2'000'000'000};
          communicator.allreduce(data.data(), data.data(), data.size(),
                                 {hvd::DataType::int32, hvd::ReduceOp::average}, {});
          expect(data == std::vector<std::int32_t>{-1, 1, 2'000'000'000, -2'000'000'000},
                 "wrong averages");
        })) == "");
}
