
#include <random>

#include <catch2/catch.hpp>

#include "tests/soak.h"
#include "tests/unit/comm/disturbance.h"
#include "tests/unit/comm/random_cases.h"
#include "tests/unit/comm/rank_threads.h"
#include "tests/unit/comm/reference.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

// A sanitizer makes the plain reference, which most of the time goes into, up to forty times
// slower; the paths depend on bytes only.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kThorough = false;
#else
constexpr bool kThorough = true;
#endif

// Around the inline bytes, the small path's end for 1 to 8 ranks, the 256 KiB chunk, and several
// chunks: those for one type of each size, since a path depends on bytes only. Many ranks on few
// cores take long, so the edges are for few.
std::vector<std::size_t> counts_of(hvd::DataType type, bool thorough) {
  std::vector<std::size_t> counts{0, 1, 2, 3, 5, 8, 9, 33, 1000};
  if (type != hvd::DataType::uint8 && type != hvd::DataType::float16 &&
      type != hvd::DataType::float32 && type != hvd::DataType::int64)
    return counts;
  const std::size_t chunk = (256U << 10) / element_size(type);
  if (!thorough) {
    if (type == hvd::DataType::float32) counts.insert(counts.end(), {chunk / 8 + 1, chunk + 1});
    return counts;
  }
  const std::vector<std::size_t> edges{chunk / 32, chunk / 8, chunk / 4, chunk};
  for (const std::size_t edge : edges)
    for (const std::size_t count : {edge - 1, edge, edge + 1}) counts.push_back(count);
  if (element_size(type) > 1) counts.push_back(2 * chunk + 7);
  return counts;
}

std::vector<Case> table(int size) {
  std::vector<Case> cases;
  std::uint64_t round = 0;
  for (const hvd::DataType type : kTypes) {
    for (const std::size_t count : counts_of(type, kThorough && size <= 3)) {
      for (const OpKind kind : kKinds) {
        for (const bool in_place : {false, true}) {
          Case c;
          c.kind = kind;
          c.reduction.type = type;
          c.count = count;
          c.in_place = in_place;
          c.misalign = in_place ? 1 : 0;
          c.round = ++round;
          c.uneven = round % 3 == 0;
          c.root = static_cast<int>(round) % size;
          choose_reduction(c, round);
          cases.push_back(c);
          if (count < 1000) continue;
          c.memory = Case::Memory::shared;
          cases.push_back(c);
          c.memory = Case::Memory::mixed;
          cases.push_back(c);
        }
      }
    }
    cases.push_back(Case{});
  }
  return cases;
}

}  // namespace

TEST_CASE("every collective gives the serial result", "[comm]") {
  const int size = GENERATE(1, 2, 3, 4, 5, 6, 7, 8);
  if (!kThorough && size > 4) return;
  CAPTURE(size);
  RankThreads ranks(size, size <= 2);
  const std::vector<Case> cases = table(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const Case& c : cases)
            check_collective(c, communicator, {.may_spin = true},
                             &ranks.buffers(communicator.rank()));
        })) == "");
}

TEST_CASE("a communicator of one rank gives the serial result", "[comm]") {
  const auto self = make_self_communicator();
  for (const Case& c : table(1))
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
