// An allreduce of many buffers gives what one of a single buffer does.
#include <algorithm>
#include <chrono>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/hosts/host_threads.h"
#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

// Each rank cuts the buffer in its own way, or not at all, with empty parts between; most have
// bytes between them that nobody may touch.
void check_cut(const Case& c, Communicator& communicator, std::uint64_t seed) {
  static constexpr char kFill = 0x5a;
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(communicator.rank()));
  const std::size_t width = element_size(c.reduction.type);
  const auto run = [&](char* input, char* output) {
    std::vector<std::size_t> counts;
    std::vector<std::size_t> begins;  // of the parts, in bytes
    std::size_t bytes = 0;
    const bool cut = random() % 4 != 0;
    for (std::size_t done = 0; done < c.count; done += counts.back()) {
      const std::size_t most = random() % 3 == 0 ? c.count / 2 + 1 : 9;
      counts.push_back(cut ? std::min<std::size_t>(random() % most, c.count - done) : c.count);
      begins.push_back(bytes);
      bytes += counts.back() * width + (random() % 4 == 0 ? 0 : random() % 70);
    }
    std::vector<char> from(bytes, kFill);
    std::vector<char> other(c.in_place ? 0 : bytes, kFill);
    std::vector<char>& to = c.in_place ? from : other;
    std::vector<BufferPart> parts;
    parts.reserve(counts.size());
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::copy_n(input, counts[i] * width, from.data() + begins[i]);
      input += counts[i] * width;
      parts.push_back({from.data() + begins[i], to.data() + begins[i], counts[i]});
    }
    communicator.grouped_allreduce(parts, c.reduction,
                                   {.timeout = std::chrono::milliseconds(60'000)});
    for (std::size_t i = 0; i < counts.size(); ++i) {
      char* const part = to.data() + begins[i];
      output = std::copy_n(part, counts[i] * width, output);
      char* const next = to.data() + (i + 1 < counts.size() ? begins[i + 1] : bytes);
      expect(std::all_of(part + counts[i] * width, next, [](char byte) { return byte == kFill; }),
             "wrote between the parts");
    }
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

TEST_CASE("many buffers are reduced as if they were one", "[comm][grouped]") {
  const int size = GENERATE(2, 3, 5);
  const auto seed = test::soak_seed("grouped");
  CAPTURE(size, seed);
  RankThreads ranks(size);
  check_random(ranks, seed, test::soak_count(kThorough ? 1'000 : 200));
}

TEST_CASE("many buffers are reduced across hosts as if they were one", "[hosts][grouped]") {
  // One rank on every host, some with one, none with one.
  const Counts counts = GENERATE(Counts{1, 1, 1}, Counts{2, 1}, Counts{1, 2, 1}, Counts{2, 2});
  const bool encrypt = counts.size() == 2 && counts[1] == 1;
  const auto seed = test::soak_seed("grouped across hosts");
  CAPTURE(counts, seed);
  HostThreads ranks(counts, encrypt);
  check_random(ranks, seed, test::soak_count(kThorough ? 500 : 100));
}
