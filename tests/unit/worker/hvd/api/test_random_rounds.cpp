// Random operations in random order on 2 to 6 processes, against what a single one would compute:
// groups, adaptive sums, process sets that come and go, ranks that join, memory of hvd::alloc, and
// differences between ranks after which the job goes on.
#include <algorithm>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/api/mini_job.h"
#include "tests/unit/worker/hvd/api/random_tasks.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

constexpr std::size_t kChapter = 40;  // rounds with the same process sets

void must(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// Operations in flight together, in an order of this rank's own; those without a name stay in
// theirs.
void run_round(const std::vector<TaskSpec>& specs, const std::vector<TaskSet>& sets,
               std::mt19937_64& own) {
  std::vector<std::size_t> order(specs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), own);
  std::vector<std::size_t> unnamed;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (specs[i].name.empty()) unnamed.push_back(i);
  auto next = unnamed.begin();
  for (std::size_t& index : order)
    if (specs[index].name.empty()) index = *next++;
  std::vector<std::unique_ptr<Task>> tasks;
  for (const std::size_t index : order) {
    const TaskSet& set = sets[specs[index].set];
    if (set.place < 0) continue;
    tasks.push_back(make_task(specs[index], set));
    tasks.back()->submit(own);
  }
  std::shuffle(tasks.begin(), tasks.end(), own);
  for (const auto& task : tasks) task->finish();
}

// Ranks with other numbers of steps: those that have no more bring zeros.
void run_uneven_steps(std::mt19937_64& random, int rank, int size) {
  std::vector<int> steps;
  for (int one = 0; one < size; ++one) steps.push_back(static_cast<int>(random() % 4));
  for (int step = 0; step < steps[static_cast<std::size_t>(rank)]; ++step) {
    float sum = 0;
    float gathered_sum = 0;
    for (int one = 0; one < size; ++one)
      if (step < steps[static_cast<std::size_t>(one)]) sum += static_cast<float>(one + 1);
    std::vector<float> data(500, static_cast<float>(rank + 1));
    const std::string name = "uneven " + std::to_string(step % 2);
    hvd::allreduce(data.data(), data.data(), data.size(), hvd::ReduceOp::sum, {}, {name});
    must(data.front() == sum && data.back() == sum, "a sum beside joined ranks");
    float mean = static_cast<float>(rank + 1);
    hvd::allreduce(&mean, &mean, 1);
    must(std::abs(mean - sum / static_cast<float>(size)) < 1e-5F, "a mean beside joined ranks");
    std::vector<float> all(static_cast<std::size_t>(size));
    const auto mine = static_cast<float>(rank + 1);
    hvd::allgather(&mine, all.data(), 1);
    for (const float one : all) gathered_sum += one;
    must(gathered_sum == sum, "an allgather beside joined ranks");
  }
  const int last = hvd::join();
  must(last >= 0 && last < size, "join: rank " + std::to_string(last));
  int same = last;
  hvd::broadcast(&same, 1);
  must(same == last, "join: another rank was last here");
}

TaskSet set_of(const std::vector<int>& ranks, const hvd::ProcessSet& set) {
  return {set, ranks, hvd::process_set_rank(set)};
}

void run_chapters(std::uint64_t seed, std::size_t rounds, int rank, int size) {
  std::mt19937_64 random(seed);
  std::mt19937_64 own(seed * 64 + static_cast<std::uint64_t>(rank) + 1);
  std::vector<int> everybody(static_cast<std::size_t>(size));
  std::iota(everybody.begin(), everybody.end(), 0);
  std::vector<std::vector<TaskSpec>> before;
  for (std::size_t round = 0; round < rounds;) {
    std::vector<TaskSet> sets = {set_of(everybody, {})};
    std::vector<int> some = everybody;
    std::shuffle(some.begin(), some.end(), random);
    some.resize(1 + random() % static_cast<std::size_t>(size - 1));
    std::sort(some.begin(), some.end());
    sets.push_back(set_of(some, hvd::add_process_set(some, "some")));
    before.clear();
    for (std::size_t i = 0; i < kChapter && round < rounds; ++i, ++round) {
      // Programs repeat themselves, and then nothing is negotiated.
      if (before.size() > 3 && random() % 4 != 0) {
        before.push_back(before[before.size() - 1 - random() % 2]);
      } else {
        before.emplace_back(1 + random() % 8);
        for (std::size_t at = 0; at < before.back().size(); ++at) {
          TaskSpec& spec = before.back()[at] = random_task(random, sets);
          if (spec.kind == TaskKind::mismatch || random() % 8 != 0)
            spec.name = "tensor " + std::to_string(at);
        }
      }
      try {
        run_round(before.back(), sets, own);
      } catch (const std::exception& error) {
        throw std::runtime_error("rank " + std::to_string(rank) + ", round " +
                                 std::to_string(round) + ": " + error.what());
      }
    }
    run_uneven_steps(random, rank, size);
    hvd::remove_process_set(sets[1].set);
  }
}

}  // namespace

// 10,000 rounds, a tenth of them in CI: under the sanitizers too.
TEST_CASE("random operations of the public API give the serial results", "[api][soak]") {
  const int size = GENERATE(2, 3, 4, 5, 6);
  const auto seed = soak_seed("random rounds, " + std::to_string(size) + " ranks");
  CAPTURE(size, seed);
  MiniJob job(size);
  job.limit = std::chrono::seconds(300);
  for (const ProcessResult& result : job.run([&](int rank) {
         hvd::init();
         run_chapters(seed, soak_count(10'000) / 5, rank, size);
         hvd::shutdown();
         return std::string();
       })) {
    INFO(result.text);
    CHECK(result.status == 0);
    CHECK(result.text.empty());
  }
}
