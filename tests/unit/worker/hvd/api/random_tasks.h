// Random operations of <hvd/hvd.h> and what a single process would make of them. Elements are small
// whole numbers, so that sums and products are exact in every type and in any order.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <hvd/hvd.h>

namespace hvdrun::test {

enum class TaskKind : int {
  allreduce,
  grouped_allreduce,
  adasum,
  allgatherv,
  broadcast,
  reducescatterv,
  alltoallv,
  mismatch,  // one rank brings another number of elements
};
constexpr int kTaskKinds = 8;

// The same on all ranks.
struct TaskSpec {
  TaskKind kind{};
  int type = 0;  // of the elements: int32, int64, float, double
  hvd::ReduceOp op = hvd::ReduceOp::sum;
  hvd::ScaleFactors scale;
  std::size_t count = 0;      // elements, or the most that a rank has
  std::uint64_t numbers = 0;  // what the elements and uneven counts come from
  int place = 0;              // the root, or who is wrong: a place in the set
  bool in_place = false;
  std::string name;     // empty: matched in the order of submission
  std::size_t set = 0;  // 0: all ranks
};

struct TaskSet {
  hvd::ProcessSet set;
  std::vector<int> ranks;  // of the job
  int place = 0;           // this rank's
};

class Task {
 public:
  virtual ~Task() = default;
  // Own random numbers choose the memory of the buffers.
  virtual void submit(std::mt19937_64& own) = 0;
  // Waits; throws std::runtime_error that says what is wrong.
  virtual void finish() = 0;
};
std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskSet& set);

TaskSpec random_task(std::mt19937_64& random, const std::vector<TaskSet>& sets);

}  // namespace hvdrun::test
