// The adaptive sum: against a serial reference, on one host and on many, and when ranks disagree.
#include <chrono>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/turns.h"
#include "tests/unit/worker/hvd/comm/adasum_cases.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/disturbance.h"
#include "tests/unit/worker/hvd/comm/hosts/host_threads.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"
#include "tests/unit/worker/hvd/comm/trouble.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::DataType;
using hvd::ErrorCode;
using hvd::ReduceOp;

namespace {

using Parts = std::vector<std::size_t>;
const Reduction kAdasum{DataType::float32, ReduceOp::adasum};

template <class Ranks>
AdasumResults adasum_results(Ranks& ranks, std::size_t size, const std::vector<AdasumCase>& cases) {
  AdasumResults results(size);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          for (const AdasumCase& c : cases)
            results.run(c, communicator, &ranks.buffers(communicator.rank()));
        })) == "");
  CHECK(results.all_same());
  return results;
}

// One adaptive sum of `own(rank)`, as rank 0 has it.
template <class Own>
std::vector<float> adasum_of(int size, const Own& own) {
  RankThreads ranks(size);
  std::vector<float> result;
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          std::vector<float> data = own(communicator.rank());
          adasum(communicator, row_of(data.data(), data.data(), {data.size()}, DataType::float32),
                 kAdasum, kPatient);
          if (communicator.rank() == 0) result = data;
        })) == "");
  return result;
}

}  // namespace

TEST_CASE("an adaptive sum of any number of ranks is the serial one", "[adasum]") {
  const int size = GENERATE(1, 2, 3, 4, 5, 6, 7, 8, 9);
  if (!kThorough && size != 2 && size != 3) return;
  CAPTURE(size);
  RankThreads ranks(size, size <= 2);
  adasum_results(ranks, static_cast<std::size_t>(size), adasum_cases(kThorough && size <= 5));
}

TEST_CASE("an adaptive sum of one rank is scaled only", "[adasum]") {
  const auto self = make_self_communicator();
  AdasumResults results(1);
  for (const AdasumCase& c : adasum_cases(kThorough))
    CHECK_FALSE(error_of([&] { results.run(c, *self, nullptr); }).has_value());
}

TEST_CASE("an adaptive sum has the same bits on every layout of hosts", "[adasum][hosts]") {
  using Layouts = std::vector<Parts>;
  const Layouts layouts = GENERATE(Layouts{{1, 1}}, Layouts{{2, 1}, {1, 1, 1}},
                                   Layouts{{4, 1}, {1, 2, 2}, {1, 1, 1, 1, 1}},
                                   Layouts{{4, 4}, {3, 1, 4}, {2, 2, 2, 2}});
  const std::size_t size = sum_of(layouts[0].data(), layouts[0].size());
  if (!kThorough && size != 3) return;
  const std::vector<AdasumCase> cases = adasum_cases(false);
  RankThreads ranks(static_cast<int>(size));
  const AdasumResults one_host = adasum_results(ranks, size, cases);
  for (const Parts& layout : layouts) {
    CAPTURE(layout);
    HostThreads hosts(layout);
    CHECK(adasum_results(hosts, size, cases) == one_host);
  }
}

TEST_CASE("a long sequence of random adaptive sums stays in step", "[adasum]") {
  const int size = GENERATE(2, 3, 5);
  const auto seed = test::soak_seed("random adaptive sums, size " + std::to_string(size));
  CAPTURE(size, seed);
  const std::size_t count = test::soak_count(kThorough ? 2'000 : 300);
  const std::vector<AdasumCase> cases = random_adasum_cases(seed, count);
  const std::vector<Case> others = random_cases(seed, count, size);
  const Disturbance disturbance(seed);
  RankThreads ranks(size);
  AdasumResults results(static_cast<std::size_t>(size));
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          BufferSource* const memory = &ranks.buffers(communicator.rank());
          for (std::size_t i = 0; i < count; ++i) {
            results.run(cases[i], communicator, memory);
            check_collective(others[i], communicator, {}, memory);
          }
        })) == "");
  CHECK(results.all_same());
}

TEST_CASE("a long sequence of random adaptive sums across hosts stays in step", "[adasum][hosts]") {
  const Parts layout = GENERATE(Parts{1, 1}, Parts{1, 3, 1});
  const auto seed = test::soak_seed("random adaptive sums across hosts");
  CAPTURE(layout, seed);
  HostThreads ranks(layout);
  adasum_results(ranks, ranks.layout().size(),
                 random_adasum_cases(seed, test::soak_count(kThorough ? 1'000 : 200)));
}

TEST_CASE("tensors of more than a batch are combined in turn", "[adasum]") {
  if (!takes_turn(2)) return;
  if (!kThorough) return;
  constexpr std::size_t kElements = kAdasumBatchBytes / sizeof(float);
  AdasumCase large;
  large.parts = {kElements / 2 + 1, kElements / 2, 77};
  large.in_place = true;
  AdasumCase many;
  many.parts.assign(70'000, 1);
  RankThreads ranks(2);
  adasum_results(ranks, 2, {large, many});
}

TEST_CASE("identical vectors give the vector, orthogonal ones their sum", "[adasum]") {
  const int size = GENERATE(2, 3, 4, 7);
  const std::size_t count = GENERATE(std::size_t{70}, std::size_t{50'000});
  CAPTURE(size, count);
  const auto vector = [&](int round) {
    std::vector<float> data;
    for (std::size_t i = 0; i < count; ++i)
      data.push_back(value_of<float>(static_cast<unsigned>(round), 0, i));
    return data;
  };
  CHECK(adasum_of(size, [&](int) { return vector(1); }) == vector(1));
  const auto apart = [&](int rank) {
    std::vector<float> data = vector(2);
    for (std::size_t i = 0; i < count; ++i)
      if (static_cast<int>(i % 7) != rank) data[i] = 0;
    return data;
  };
  std::vector<float> sum = vector(2);
  for (std::size_t i = 0; i < count; ++i)
    if (static_cast<int>(i % 7) >= size) sum[i] = 0;
  CHECK(adasum_of(size, apart) == sum);
}

TEST_CASE("zero vectors leave the others as they are", "[adasum]") {
  const std::size_t count = GENERATE(std::size_t{70}, std::size_t{50'000});
  const int one = GENERATE(-1, 0, 1, 2, 4);
  std::vector<float> vector(count, one < 0 ? 0.0F : 1.5F);
  CHECK(adasum_of(5, [&](int rank) {
          return rank == one ? vector : std::vector<float>(count, 0.0F);
        }) == vector);
}

TEST_CASE("a vector whose square vanishes counts as zero", "[adasum]") {
  RankThreads ranks(2);
  CHECK(first_error(ranks.run([](Communicator& communicator) {
          double value = communicator.rank() == 0 ? 1e-161 : 1.0;
          adasum(communicator, {{&value, &value, 1}}, {DataType::float64, ReduceOp::adasum},
                 kPatient);
          expect(value == 1.0, "not the other vector");
        })) == "");
}

TEST_CASE("what is not a number stays in its tensor", "[adasum]") {
  const std::size_t count = GENERATE(std::size_t{70}, std::size_t{50'000});
  RankThreads ranks(3);
  CHECK(first_error(ranks.run([&](Communicator& communicator) {
          std::vector<float> data(2 * count, 1.0F);
          if (communicator.rank() == 1) data[count / 2] = NAN;
          adasum(communicator, row_of(data.data(), data.data(), {count, count}, DataType::float32),
                 kAdasum, kPatient);
          expect(std::isnan(data[0]) && std::isnan(data[count - 1]), "NaN got lost");
          expect(data[count] == 1.0F && data[2 * count - 1] == 1.0F, "NaN came over");
        })) == "");
}

TEST_CASE("an adaptive sum meets nothing but itself", "[adasum]") {
  const bool large = GENERATE(false, true);
  const bool hosts = GENERATE(false, true);
  CAPTURE(large, hosts);
  const std::size_t count = large ? 60'000 : 60;
  const std::string text = "float32, " + std::to_string(count) + " elements, ";
  const std::string first = "rank 0 called allreduce(" + text + "adasum), but rank 2 called ";
  std::vector<std::vector<float>> data(3, std::vector<float>(count, 3.0F));
  const auto check = [&](const std::string& words, const auto& other) {
    const auto body = [&](Communicator& communicator) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      std::vector<float> output(3 * count);
      if (rank == 2) return other(communicator, data[2].data(), output.data());
      adasum(communicator, row_of(data[rank].data(), data[rank].data(), {count}, DataType::float32),
             kAdasum, kPatient);
    };
    if (hosts) {
      HostThreads ranks({2, 1});
      const RankErrors errors = ranks.run(body);
      check_all(errors, ErrorCode::mismatch, " called ");
      // Whoever has no connection knows only that another host differs.
      for (const std::size_t rank : {0, 2}) CHECK(contains(errors[rank]->text, first + words));
      CHECK(contains(errors[1]->text, "but another host something else"));
    } else {
      RankThreads ranks(3);
      check_all(ranks.run(body), ErrorCode::mismatch, first + words);
    }
    for (const auto& own : data) CHECK(own == std::vector<float>(count, 3.0F));
  };
  SECTION("another reduction") {
    check("allreduce(" + text + "sum)", [&](Communicator& communicator, float* own, float*) {
      communicator.allreduce(own, own, count, {DataType::float32, ReduceOp::sum}, kPatient);
    });
  }
  SECTION("what its first step is made of") {
    check(large ? "alltoall(float32)" : "allgather(float32, 180 elements in all)",
          [&](Communicator& communicator, const float* own, float* output) {
            const Parts all(3, count);
            const Parts third(3, count / 3);
            if (large)
              communicator.alltoall(own, third.data(), output, third.data(), DataType::float32,
                                    kPatient);
            else
              communicator.allgather(own, output, all.data(), DataType::float32, kPatient);
          });
  }
  SECTION("other tensors") {
    check("allreduce(" + text + "adasum, tensors and scale factors #",
          [&](Communicator& communicator, float* own, float*) {
            adasum(communicator, row_of(own, own, {count / 2, count / 2}, DataType::float32),
                   kAdasum, kPatient);
          });
  }
  SECTION("scale factors") {
    check("allreduce(" + text + "adasum, tensors and scale factors #",
          [&](Communicator& communicator, float* own, float*) {
            Reduction scaled = kAdasum;
            scaled.postscale = 2;
            adasum(communicator, row_of(own, own, {count}, DataType::float32), scaled, kPatient);
          });
  }
}

TEST_CASE("equal tensors of another number are a mismatch", "[adasum]") {
  RankThreads ranks(2);
  check_all(ranks.run([&](Communicator& communicator) {
    std::vector<float> data(8);
    const Parts parts = communicator.rank() == 0 ? Parts{4, 4} : Parts{2, 2, 2, 2};
    adasum(communicator, row_of(data.data(), data.data(), parts, DataType::float32), kAdasum,
           kPatient);
  }),
            ErrorCode::mismatch, "rank 0 called allreduce(float32, 8 elements, adasum, tensors");
}

TEST_CASE("every step of an adaptive sum names what was called", "[adasum]") {
  const std::size_t count = GENERATE(std::size_t{0}, std::size_t{60}, std::size_t{60'000});
  const bool hosts = GENERATE(false, true);
  const std::string words =
      "allreduce(float32, " + std::to_string(count) + " elements, adasum): waited 0.3 s for rank 1";
  CAPTURE(count, hosts);
  const auto body = [&](Communicator& communicator) {
    std::vector<float> data(count, 3.0F);
    if (communicator.rank() == 1) return;
    adasum(communicator, row_of(data.data(), data.data(), {count}, DataType::float32), kAdasum,
           {.timeout = std::chrono::milliseconds(300)});
  };
  const auto check = [&](const RankErrors& errors) {
    REQUIRE(errors[0].has_value());
    CHECK(errors[0]->code == ErrorCode::timeout);
    CHECK(contains(errors[0]->text, words));
  };
  if (hosts) {
    HostThreads ranks({1, 1});
    check(ranks.run(body));
  } else {
    RankThreads ranks(2);
    check(ranks.run(body));
  }
}
