
#include <random>

#include <catch2/catch.hpp>

#include "tests/soak.h"
#include "tests/unit/comm/rank_threads.h"
#include "tests/unit/comm/reference.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

const std::vector<hvd::DataType> kTypes{hvd::DataType::int32, hvd::DataType::int64,
                                        hvd::DataType::float32, hvd::DataType::float64};

// Around the inline bytes, the small path's end for 1 to 5 ranks, the 256 KiB chunk, and several
// chunks, for elements of 4 and of 8 bytes.
std::vector<std::size_t> counts_of(hvd::DataType type) {
  std::vector<std::size_t> counts{0, 1, 2, 3, 4, 5, 8, 9, 1000};
  const std::size_t chunk = (256U << 10) / element_size(type);
#if defined(__SANITIZE_THREAD__)
  const std::vector<std::size_t> edges{chunk / 8};  // twenty times slower; the paths are the same
#else
  const std::vector<std::size_t> edges{chunk / 8, chunk / 4, chunk};
#endif
  for (const std::size_t edge : edges)
    for (const std::size_t count : {edge - 1, edge, edge + 1}) counts.push_back(count);
  counts.push_back(2 * chunk + 7);
  return counts;
}

std::vector<Case> table(int size) {
  std::vector<Case> cases;
  std::uint64_t round = 0;
  for (const hvd::DataType type : kTypes) {
    for (const std::size_t count : counts_of(type)) {
      for (const bool in_place : {false, true}) {
        Case c;
        c.type = type;
        c.count = count;
        c.in_place = in_place;
        c.misalign = in_place ? 1 : 0;
        c.kind = OpKind::allreduce;
        c.round = ++round;
        c.op = hvd::ReduceOp::sum;
        cases.push_back(c);
        c.round = ++round;
        c.op = hvd::ReduceOp::average;
        cases.push_back(c);
        c.round = ++round;
        c.kind = OpKind::allgather;
        cases.push_back(c);
        c.round = ++round;
        c.kind = OpKind::broadcast;
        c.root = static_cast<int>(round) % size;
        cases.push_back(c);
      }
    }
    cases.push_back(Case{});
  }
  return cases;
}

}  // namespace

TEST_CASE("every collective gives the serial result", "[comm]") {
  const int size = GENERATE(1, 2, 3, 4, 5);
  CAPTURE(size);
  RankThreads ranks(size, size <= 2);
  const std::vector<Case> cases = table(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const Case& c : cases) check_collective(c, communicator, {.may_spin = true});
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
  std::mt19937_64 random(seed);
  std::vector<Case> cases(test::soak_count(10'000));
  for (Case& c : cases) {
    c.kind = static_cast<OpKind>(1 + random() % 4);
    c.type = kTypes[random() % kTypes.size()];
    c.op = random() % 2 == 0 ? hvd::ReduceOp::sum : hvd::ReduceOp::average;
    // Mostly small, sometimes several chunks.
    c.count = random() % (std::size_t{1} << (random() % 17));
    c.root = static_cast<int>(random() % static_cast<unsigned>(size));
    c.in_place = random() % 2 == 0;
    c.misalign = random() % 9;
    c.round = random();
    if (c.kind == OpKind::barrier) c = Case{};
  }
  // Ranks that fall behind at random places find every reuse of a slot.
  const std::uint64_t delays = random();
  RankThreads ranks(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          std::mt19937_64 own(delays + static_cast<std::uint64_t>(communicator.rank()));
          for (const Case& c : cases) {
            for (std::uint64_t i = own() % 4 == 0 ? own() % 64 : 0; i > 0; --i)
              std::this_thread::yield();
            check_collective(c, communicator, {.may_spin = own() % 2 == 0});
          }
        })) == "");
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
          communicator.allreduce(buffer.data(), whole.data(), large, hvd::DataType::float32,
                                 hvd::ReduceOp::average, {});
          for (const std::size_t at : {0, 1, 33'333, 50'000, 99'990}) {
            std::vector<float> part(8);
            communicator.allreduce(buffer.data() + at, part.data(), 8, hvd::DataType::float32,
                                   hvd::ReduceOp::average, {});
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
          communicator.allreduce(data.data(), data.data(), data.size(), hvd::DataType::int32,
                                 hvd::ReduceOp::average, {});
          expect(data == std::vector<std::int32_t>{-1, 1, 2'000'000'000, -2'000'000'000},
                 "wrong averages");
        })) == "");
}
