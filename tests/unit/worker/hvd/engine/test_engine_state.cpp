// The parts of an engine's state, stepped by hand.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "worker/hvd/engine/continuations.h"
#include "worker/hvd/engine/failure.h"
#include "worker/hvd/engine/handles.h"
#include "worker/hvd/engine/stall_clock.h"
#include "worker/hvd/engine/submission_log.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

Operation named_barrier(const std::string& name) {
  Operation operation;
  operation.name = name;
  return operation;
}

TEST_CASE("a handle names one operation, and none of an engine before", "[engine]") {
  Handles earlier;
  Handles handles;
  const auto entry = std::make_shared<Entry>(named_barrier("a"));
  const std::uint64_t old = earlier.add(entry);
  const std::uint64_t id = handles.add(entry);
  CHECK(handles.at(id, "poll") == entry);
  CHECK_THROWS_WITH(handles.at(old, "poll"),
                    "poll: no operation has handle " + std::to_string(old));
  CHECK(handles.add(entry) != id);
  CHECK(handles.take(id, "synchronize") == entry);
  CHECK_THROWS_WITH(handles.take(id, "synchronize"),
                    "synchronize: no operation has handle " + std::to_string(id));
}

TEST_CASE("a continuation is owed until it has returned", "[engine]") {
  Continuations continuations;
  Entry entry(named_barrier("a"));
  Entry without(named_barrier("b"));
  CHECK_FALSE(continuations.any_owed());
  int calls = 0;
  continuations.add(entry, [&] { ++calls; });
  CHECK(continuations.any_owed());
  CHECK(continuations.take().empty());
  continuations.release(without);
  continuations.release(entry);
  continuations.release(entry);  // once only
  const auto bodies = continuations.take();
  REQUIRE(bodies.size() == 1);
  CHECK(continuations.take().empty());
  CHECK(continuations.any_owed());
  bodies.front()();
  continuations.returned(bodies);
  CHECK(calls == 1);
  CHECK_FALSE(continuations.any_owed());
}

TEST_CASE("a stall is told after each further span, and anew for another operation", "[engine]") {
  const StallClock::TimePoint begin{1h};
  StallClock never(0ms);
  CHECK(never.next(begin) == StallClock::TimePoint::max());
  StallClock stalls(10ms);
  CHECK(stalls.next(begin) == begin + 10ms);
  CHECK(stalls.next(begin) == begin + 10ms);
  stalls.told();
  CHECK(stalls.next(begin) == begin + 20ms);
  stalls.told();
  CHECK(stalls.next(begin + 1ms) == begin + 11ms);
}

TEST_CASE("a report tells the operation on its caller's thread first", "[engine]") {
  const SubmissionLog::TimePoint begin{1h};
  SubmissionLog log;
  std::list<std::shared_ptr<Entry>> pending;
  PendingReport report = log.report(pending, begin);
  CHECK(report.pending == 0);
  CHECK(report.submitted == 0);
  CHECK(report.last_submitted.empty());

  const Operation direct = named_barrier("direct");
  log.note(direct, begin);
  log.begin_direct(direct);
  for (std::size_t i = 0; i < PendingReport::kMost + 3; ++i) {
    pending.push_back(std::make_shared<Entry>(named_barrier("")));
    pending.back()->submitted = begin + 1s;
    log.note(pending.back()->operation, begin + 1s);
  }
  report = log.report(pending, begin + 3s);
  CHECK(report.oldest.size() == PendingReport::kMost);
  CHECK(report.oldest[0].name == "direct");
  CHECK(report.oldest[0].age == 3s);
  CHECK(report.oldest[1].name == describe(pending.front()->operation));
  CHECK(report.oldest[1].age == 2s);
  CHECK(report.pending == PendingReport::kMost + 4);
  CHECK(report.submitted == PendingReport::kMost + 4);
  CHECK(report.last_submitted == "barrier #" + std::to_string(PendingReport::kMost + 4));
  CHECK(report.last_submitted_at == begin + 1s);

  log.end_direct();
  log.note(direct, begin + 2s);
  report = log.report(pending, begin + 3s);
  CHECK(report.oldest[0].name == report.oldest[1].name);
  CHECK(report.pending == PendingReport::kMost + 3);
  CHECK(report.last_submitted == "direct");
}

TEST_CASE("an error has the operation's name and the caller's description", "[engine]") {
  Operation operation = named_barrier("grad");
  operation.kind = OpKind::allgather;
  operation.description = "allgather of rows";
  const hvd::Error error(hvd::ErrorCode::timeout, "allgather(int64, 3 elements in all): too late");
  CHECK(named_error(operation, error).what() == std::string("'grad': allgather of rows: too late"));
  const hvd::Error other(hvd::ErrorCode::timeout, "barrier(): too late");
  CHECK(named_error(operation, other).what() == std::string("'grad': barrier(): too late"));
  CHECK(named_error(named_barrier(""), other).code() == hvd::ErrorCode::timeout);
}

}  // namespace
}  // namespace hvdrun
