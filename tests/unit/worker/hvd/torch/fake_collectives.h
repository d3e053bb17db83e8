// A job of several ranks in one process: the functions of <hvd/hvd.h> with invented peers, so that
// every order of events can be tested. Rank r of the fake job brings (r + 1) times our own values;
// we are rank 0. Memory given to an asynchronous operation changes only in synchronize().
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <hvd/elastic_run.h>

namespace hvdrun::test {

struct FakeCall {
  void* data;
  std::size_t count;
  hvd::DataType type;
  hvd::ReduceOp op;
  hvd::ScaleFactors scale;
  bool waited_for;
  std::string name = {};
};

struct FakeJob {
  int size = 4;
  int rank = 0;                 // ours, of rank() alone
  int inits = 0;                // after a shutdown()
  int size_after = 0;           // then; 0: as before
  std::vector<FakeCall> calls;  // every reduction, in the order of submission
  std::size_t groups = 0;       // grouped reductions, whose tensors are among the calls
  std::optional<std::size_t> failing_call;
  // The peers' part of an allgather of int64; as ours when empty.
  std::function<std::int64_t(int rank, std::size_t index, std::int64_t mine)> peers;
  // The events that a timeline was told, if it is on: "lane 3 begin", by the activity's number.
  bool timeline_on = false;
  std::vector<std::string> timeline;
  // True: the follower of an operation (hvd::then) is called by the test, not at once.
  bool late = false;
  std::vector<std::function<void()>> late_thens;
  // The same of an allgather_object, and of an allgather of characters.
  std::function<std::string(int rank, const std::string& mine)> objects;

  double average() const { return (size + 1) / 2.0; }
};

// A fresh one for each test.
FakeJob& fake_job();
void reset_fake_job(int size = 4);

}  // namespace hvdrun::test
