// Ranks that submit in different orders get the serial results.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/comm/conformance.h"
#include "tests/unit/worker/hvd/comm/random_cases.h"
#include "tests/unit/worker/hvd/engine/engine_ranks.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::DataType;
using hvd::ErrorCode;
using hvd::ReduceOp;
using std::chrono::milliseconds;

namespace {

using Hosts = std::vector<std::size_t>;

struct Named {
  std::string name;  // empty: matched in the order of submission
  Case what;
};

// Operations of one round, in flight together, in an order of this rank's own; those without a name
// stay in their order.
class Round {
 public:
  Round(const std::vector<Named>& operations, Engine& engine, std::size_t rank, std::size_t ranks,
        std::uint64_t seed)
      : operations_(operations),
        engine_(engine),
        rank_(rank),
        ranks_(ranks),
        random_(seed * 64 + rank),
        order_(operations.size()),
        ids_(operations.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::shuffle(order_.begin(), order_.end(), random_);
    std::vector<std::size_t> unnamed;
    for (std::size_t i = 0; i < operations.size(); ++i)
      if (operations[i].name.empty()) unnamed.push_back(i);
    auto next = unnamed.begin();
    for (std::size_t& index : order_)
      if (operations[index].name.empty()) index = *next++;
  }

  void run() { submit(0); }

 private:
  // The buffers live until all are done.
  void submit(std::size_t place) {
    if (place == order_.size()) return wait();
    const std::size_t index = order_[place];
    Case c = operations_[index].what;
    if (c.kind == OpKind::broadcast) c.in_place = true;
    if (c.kind == OpKind::alltoall && c.uneven) c.in_place = false;
    const auto body = [&](char* input, char* output) {
      Operation operation = operation_of(c, rank_, ranks_, input, output);
      operation.name = operations_[index].name;
      ids_[index] = engine_.submit(operation);
      if (random_() % 8 == 0) std::this_thread::yield();
      submit(place + 1);
    };
    with_type(c.reduction.type,
              [&](auto element) { check_typed<decltype(element)>(c, rank_, ranks_, body); });
  }
  void wait() {
    std::shuffle(ids_.begin(), ids_.end(), random_);
    for (const std::uint64_t id : ids_) {
      if (random_() % 4 == 0)
        while (!engine_.poll(id)) std::this_thread::yield();
      engine_.synchronize(id);
    }
  }

  const std::vector<Named>& operations_;
  Engine& engine_;
  const std::size_t rank_;
  const std::size_t ranks_;
  std::mt19937_64 random_;
  std::vector<std::size_t> order_;
  std::vector<std::uint64_t> ids_;
};

std::vector<std::vector<Named>> random_rounds(std::uint64_t seed, std::size_t count, int ranks) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<Named>> rounds(count);
  for (std::size_t i = 0; i < count; ++i) {
    // Some programs repeat themselves.
    if (i >= 8 && random() % 4 != 0) {
      rounds[i] = rounds[i - 1 - random() % 2];
      continue;
    }
    const auto cases = random_cases(random(), 1 + random() % 12, ranks);
    for (Case c : cases) {
      c.memory = Case::Memory::heap;
      if (random() % 2 == 0 && c.kind != OpKind::barrier) {
        // Small ones that can be reduced as one.
        c.kind = OpKind::allreduce;
        c.reduction = {random() % 4 == 0 ? DataType::int32 : DataType::float32, ReduceOp::sum};
        c.count %= 3000;
      }
      std::string name = "tensor/" + std::to_string(rounds[i].size());
      if (random() % 8 == 0) name = "";
      rounds[i].push_back({name, c});
    }
  }
  return rounds;
}

void check_rounds(EngineRanks& ranks, std::uint64_t seed, std::size_t count) {
  const auto rounds = random_rounds(seed, count, static_cast<int>(ranks.size()));
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          for (std::size_t i = 0; i < rounds.size(); ++i)
            Round(rounds[i], engine, rank, ranks.size(), seed + i).run();
          engine.shutdown();
        })) == "");
}

std::uint64_t submit_sum(Engine& engine, const std::string& name, std::vector<float>& data) {
  Operation operation;
  operation.kind = OpKind::allreduce;
  operation.input = operation.output = data.data();
  operation.count = data.size();
  operation.name = name;
  return engine.submit(operation);
}

}  // namespace

// 10,000 rounds with those across hosts, a tenth of them in CI: under the sanitizers too.
TEST_CASE("operations in any order of submission get the serial results", "[engine][matching]") {
  const Hosts hosts = GENERATE(Hosts{2}, Hosts{3}, Hosts{4}, Hosts{5}, Hosts{6});
  const auto seed = test::soak_seed("matching");
  CAPTURE(hosts, seed);
  EngineRanks ranks(hosts);
  check_rounds(ranks, seed, test::soak_count(8'000) / 5);
}

TEST_CASE("operations in any order get the serial results across hosts", "[engine][matching]") {
  const Hosts hosts = GENERATE(Hosts{1, 1}, Hosts{2, 1}, Hosts{1, 2, 1});
  const auto seed = test::soak_seed("matching across hosts");
  CAPTURE(hosts, seed);
  EngineRanks ranks(hosts);
  check_rounds(ranks, seed, test::soak_count(2'000) / 3);
}

TEST_CASE("in steady state ranks with orders of their own negotiate nothing",
          "[engine][matching]") {
  const Hosts hosts = GENERATE(Hosts{2}, Hosts{3}, Hosts{2, 1});
  CAPTURE(hosts);
  EngineRanks ranks(hosts);
  // On a busy machine ranks may need longer to find out what they do together.
  constexpr int kMostLearning = 2000;
  constexpr int kQuiet = 20;  // steps without a negotiation
  constexpr int kSteps = 100;
  constexpr std::size_t kTensors = 50;
  std::vector<EngineStatistics> before(ranks.size());
  std::vector<EngineStatistics> after(ranks.size());
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          std::vector<std::vector<float>> tensors(kTensors, std::vector<float>(100));
          const auto step = [&] {
            std::vector<std::uint64_t> ids;
            for (std::size_t i = 0; i < kTensors; ++i) {
              // Ranks begin elsewhere, and every other one goes backwards.
              const std::size_t at = (i * (rank % 2 == 0 ? 1 : kTensors - 1) + rank * 7) % kTensors;
              std::fill(tensors[at].begin(), tensors[at].end(), static_cast<float>(at));
              ids.push_back(submit_sum(engine, "gradient " + std::to_string(at), tensors[at]));
            }
            for (const std::uint64_t id : ids) engine.synchronize(id);
            for (std::size_t i = 0; i < kTensors; ++i)
              expect(tensors[i].back() == static_cast<float>(i * ranks.size()), "wrong sum");
          };
          // Negotiations are counted alike on all ranks.
          int quiet = 0;
          for (int i = 0; i < kMostLearning && quiet < kQuiet; ++i) {
            const std::uint64_t so_far = engine.statistics().negotiations;
            step();
            quiet = engine.statistics().negotiations == so_far ? quiet + 1 : 0;
          }
          before[rank] = engine.statistics();
          for (int i = 0; i < kSteps; ++i) step();
          after[rank] = engine.statistics();
        })) == "");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    CHECK(after[rank].negotiations == before[rank].negotiations);
    CHECK(before[rank].negotiations > 0);
    CHECK(after[rank].operations - before[rank].operations == kSteps * kTensors);
    // Many run as one.
    CHECK(after[rank].batches - before[rank].batches <= kTensors / 4 * kSteps);
  }
}

TEST_CASE("with other counts in every step ranks negotiate nothing", "[engine][matching]") {
  const Hosts hosts = GENERATE(Hosts{2}, Hosts{2, 2});
  CAPTURE(hosts);
  EngineRanks ranks(hosts);
  constexpr std::size_t kSteps = 100;
  std::vector<std::uint64_t> negotiations(ranks.size());
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          // The same of all ranks, of each step others.
          const auto step = [&](std::size_t number) {
            std::vector<std::uint64_t> ids;
            std::vector<std::vector<float>> inputs;
            std::vector<std::vector<float>> outputs;
            for (std::size_t i = 0; i < 4; ++i) {
              Operation gather;
              gather.kind = OpKind::allgather;
              gather.name = "rows " + std::to_string(i);
              gather.varying_counts = true;
              for (std::size_t other = 0; other < ranks.size(); ++other)
                gather.counts.push_back((number * 7 + other * 3 + i) % 11);
              inputs.emplace_back(gather.counts[rank], static_cast<float>(rank + 1));
              outputs.emplace_back(sum_of(gather.counts.data(), ranks.size()));
              gather.input = inputs.back().data();
              gather.output = outputs.back().data();
              ids.push_back(engine.submit(gather));
            }
            for (const std::uint64_t id : ids) engine.synchronize(id);
            for (const std::vector<float>& output : outputs)
              expect(std::is_sorted(output.begin(), output.end()) &&
                         (output.empty() || output.front() >= 1),
                     "wrong rows");
          };
          constexpr int kMostLearning = 2000;
          constexpr int kQuiet = 20;
          int quiet = 0;
          std::size_t number = 0;
          for (int i = 0; i < kMostLearning && quiet < kQuiet; ++i) {
            const std::uint64_t so_far = engine.statistics().negotiations;
            step(number++);
            quiet = engine.statistics().negotiations == so_far ? quiet + 1 : 0;
          }
          const std::uint64_t before = engine.statistics().negotiations;
          for (std::size_t i = 0; i < kSteps; ++i) step(number++);
          negotiations[rank] = engine.statistics().negotiations - before;
        })) == "");
  for (const std::uint64_t count : negotiations) CHECK(count == 0);
}

TEST_CASE("a rank may wait for one operation before it submits the next", "[engine][matching]") {
  const Hosts hosts = GENERATE(Hosts{2}, Hosts{1, 1}, Hosts{2, 2});
  CAPTURE(hosts);
  EngineRanks ranks(hosts);
  CHECK(first_error(ranks.run([&](Engine& engine, std::size_t rank) {
          for (int round = 0; round < 100; ++round) {
            std::vector<float> a(10, 1);
            std::vector<float> b(10, 2);
            if (rank == 0) {
              const auto first = submit_sum(engine, "a", a);
              const auto second = submit_sum(engine, "b", b);
              engine.synchronize(first);
              engine.synchronize(second);
            } else if (round % 2 == 0) {
              engine.synchronize(submit_sum(engine, "b", b));
              engine.synchronize(submit_sum(engine, "a", a));
            } else {
              std::thread other([&] { engine.synchronize(submit_sum(engine, "a", a)); });
              engine.synchronize(submit_sum(engine, "b", b));
              other.join();
            }
            expect(a[9] == static_cast<float>(ranks.size()), "wrong a");
            expect(b[9] == static_cast<float>(2 * ranks.size()), "wrong b");
          }
        })) == "");
}

TEST_CASE("a name under way cannot be used again", "[engine][matching]") {
  EngineRanks ranks({2});
  std::vector<float> data(4);
  std::vector<float> other(4);
  const auto id = submit_sum(ranks[0], "twice", data);
  const auto error = error_of([&] { submit_sum(ranks[0], "twice", other); });
  REQUIRE(error);
  CHECK(error->code == ErrorCode::invalid_argument);
  CHECK_THAT(error->text, Catch::Matchers::Contains("an operation named 'twice' is under way"));
  ranks[1].synchronize(submit_sum(ranks[1], "twice", other));
  ranks[0].synchronize(id);
  ranks[0].shutdown();
}

TEST_CASE("an operation that some ranks never call ends at its deadline", "[engine][matching]") {
  const Hosts hosts = GENERATE(Hosts{3}, Hosts{2, 1});
  CAPTURE(hosts);
  EngineRanks ranks(hosts, [](EngineOptions& options, int rank) {
    options.timeout = rank == 0 ? milliseconds(200) : milliseconds(60'000);
  });
  const RankErrors errors = ranks.run([&](Engine& engine, std::size_t rank) {
    std::vector<float> a(10);
    // Everybody is there, but nobody has what all have.
    engine.synchronize(submit_sum(engine, "tensor " + std::to_string(rank), a));
  });
  REQUIRE(errors[0]);
  CHECK(errors[0]->code == ErrorCode::timeout);
  CHECK_THAT(errors[0]->text,
             Catch::Matchers::Contains("'tensor 0': allreduce(float32, 10 elements, sum): waited "
                                       "0.2 s for rank 1, rank 2, which did not call it"));
  for (std::size_t rank = 1; rank < 3; ++rank) {
    REQUIRE(errors[rank]);
    CHECK(errors[rank]->code == ErrorCode::timeout);
  }
}
