// The table of <hvd/numbers.h> on every path of one host; test_hosts.cpp has those of several.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/reduce/number_checks.h"
#include "worker/hvd/comm/adasum.h"
#include "worker/hvd/comm/reduce/reduce.h"

using namespace hvdrun;
using namespace hvdrun::test;

TEST_CASE("every instruction set follows the table of numbers", "[numbers]") {
  ReduceVariant variants[kMaxReduceVariants];
  const std::size_t variant_count = reduce_variants(variants);
  constexpr std::size_t kElements = 530;  // more than a block of the loops
  for (std::size_t v = 0; v < variant_count; ++v)
    for (const NumberCase& c : number_cases())
      for (const std::size_t ranks : {1, 2, 3, 4, 5})
        for (const std::size_t before : {std::size_t{0}, ranks / 2}) {
          // Ranks before are combined in a call of their own, as on another host.
          std::vector<std::vector<std::byte>> inputs;
          std::vector<const std::byte*> sources;
          for (std::size_t rank = 0; rank < ranks; ++rank)
            inputs.push_back(number_input(c, rank, ranks, 0, kElements));
          for (const std::vector<std::byte>& input : inputs) sources.push_back(input.data());
          std::vector<std::byte> prefix(kElements * accumulator_bytes(c.reduction));
          PartOfReduction part{.unfinished = true, .ranks = ranks};
          std::byte* target = prefix.data();
          if (before > 0)
            variants[v].function(sources.data(), before, kElements, c.reduction, &target, 1, part);
          part = {before > 0 ? prefix.data() : nullptr, false, ranks};
          std::vector<std::byte> results(2 * kElements * element_size(c.reduction.type));
          std::byte* const targets[] = {results.data(), results.data() + results.size() / 2};
          variants[v].function(sources.data() + before, ranks - before, kElements, c.reduction,
                               targets, 2, part);
          for (const std::byte* const result : targets)
            if (const auto fault = number_fault(c, result, ranks, 0, kElements, false);
                !fault.empty())
              FAIL(variants[v].name << ", " << ranks << " ranks, " << before
                                    << " before: " << fault);
        }
}

TEST_CASE("ranks of one host follow the table of numbers", "[numbers]") {
  const int size = GENERATE(2, 3, 4);
  CAPTURE(size);
  RankThreads ranks(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          check_numbers(communicator, &ranks.buffers(communicator.rank()));
        })) == "");
}

TEST_CASE("one rank alone follows the table of numbers", "[numbers]") {
  const auto self = make_self_communicator();
  CHECK(first_error({error_of([&] { check_numbers(*self, nullptr); })}) == "");
}

#if defined(__x86_64__)
TEST_CASE("a rank whose thread flushes subnormals has the others' results", "[numbers]") {
  constexpr unsigned kFlushAll = 0x8040;  // results and operands
  RankThreads ranks(2);
  const std::size_t count = GENERATE(std::size_t{3}, std::size_t{100'000});
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          const unsigned mode = _mm_getcsr() | (communicator.rank() == 0 ? kFlushAll : 0);
          _mm_setcsr(mode);
          const auto of = [&](std::uint32_t bits, hvd::ReduceOp op) {
            std::vector<std::uint32_t> data(count, bits);
            const std::vector<BufferPart> parts{{data.data(), data.data(), count}};
            const Reduction reduction{hvd::DataType::float32, op};
            if (op == hvd::ReduceOp::adasum)
              adasum(communicator, parts, reduction, {});
            else
              communicator.allreduce(data.data(), data.data(), count, reduction, {});
            return std::all_of(data.begin(), data.end(),
                               [&](std::uint32_t one) { return one == data[0]; })
                       ? data[0]
                       : 0;
          };
          expect(of(100, hvd::ReduceOp::sum) == 200, "a sum of subnormals");
          expect(of(100, hvd::ReduceOp::average) == 100, "an average of subnormals");
          expect(of(communicator.rank() == 0 ? 100 : 7, hvd::ReduceOp::max) == 100,
                 "the larger of two subnormals");
          expect(of(100, hvd::ReduceOp::adasum) == 100, "an adaptive sum of subnormals");
          expect((_mm_getcsr() & ~0x3fU) == (mode & ~0x3fU), "the caller's mode has changed");
        })) == "");
}
#endif
