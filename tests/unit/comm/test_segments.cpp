// An allreduce of many buffers gives what one of a single buffer does.
#include <chrono>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/soak.h"
#include "tests/unit/comm/conformance.h"
#include "tests/unit/comm/host_threads.h"
#include "tests/unit/comm/random_cases.h"
#include "tests/unit/comm/rank_threads.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

// Each rank cuts the buffer in its own way, with empty parts between.
void check_cut(const Case& c, Communicator& communicator, std::uint64_t seed) {
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(communicator.rank()));
  const auto run = [&](char* input, char* output) {
    const std::size_t width = element_size(c.reduction.type);
    std::vector<BufferPart> segments;
    for (std::size_t done = 0; done < c.count;) {
      const std::size_t most = random() % 3 == 0 ? c.count / 2 + 1 : 9;
      const std::size_t part = std::min<std::size_t>(random() % most, c.count - done);
      segments.push_back({input + done * width, output + done * width, part});
      done += part;
    }
    communicator.allreduce_segments(segments, c.reduction,
                                    {.timeout = std::chrono::milliseconds(60'000)});
  };
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  with_type(c.reduction.type,
            [&](auto element) { check_typed<decltype(element)>(c, rank, ranks, run); });
}

template <class Ranks>
void check_random(Ranks& ranks, std::uint64_t seed, std::size_t rounds) {
  std::mt19937_64 random(seed);
  std::vector<Case> cases(rounds);
  for (Case& c : cases) {
    c.kind = OpKind::allreduce;
    c.reduction.type = kTypes[random() % kTypes.size()];
    choose_reduction(c, random());
    c.count = random() % (std::size_t{1} << (random() % 19));
    c.in_place = random() % 2 == 0;
    c.misalign = random() % 9;
    c.round = random();
  }
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const Case& c : cases) check_cut(c, communicator, c.round);
        })) == "");
}

}  // namespace

TEST_CASE("many buffers are reduced as if they were one", "[comm][segments]") {
  const int size = GENERATE(2, 3, 5);
  const auto seed = test::soak_seed("segments");
  CAPTURE(size, seed);
  RankThreads ranks(size);
  check_random(ranks, seed, test::soak_count(kThorough ? 1'000 : 200));
}

TEST_CASE("many buffers are reduced across hosts as if they were one", "[hosts][segments]") {
  const auto seed = test::soak_seed("segments across hosts");
  CAPTURE(seed);
  HostThreads ranks({2, 1});
  check_random(ranks, seed, test::soak_count(kThorough ? 500 : 100));
}
