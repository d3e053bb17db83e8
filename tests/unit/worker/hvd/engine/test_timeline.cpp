#include <atomic>
#include <thread>
#include <vector>

#include "common/base/limits.h"
#include "tests/catch.h"
#include "worker/hvd/engine/timeline.h"

namespace hvdrun {
namespace {

std::uint64_t test_time = 0;  // each look at the clock takes a microsecond
std::uint64_t test_clock() { return test_time += 1000; }

TimelineEvents events_of(const TimelineBatch& batch) {
  TimelineEvents events;
  REQUIRE_FALSE(decode(batch.bytes, events));
  CHECK(events.events.size() == batch.count);
  return events;
}

// Everything that is there, and how much of it was dropped.
std::vector<TimelineBatch> take_all(Timeline& timeline) {
  std::vector<TimelineBatch> batches;
  while (auto batch = timeline.take()) batches.push_back(*std::move(batch));
  return batches;
}

TEST_CASE("a timeline that is off records nothing and wakes nobody", "[timeline]") {
  int wakes = 0;
  Timeline timeline([&](bool) { ++wakes; }, test_clock);
  const std::uint64_t before = test_time;
  timeline.begin("a", TimelinePhase::reduce);
  timeline.end("a", TimelinePhase::reduce);
  timeline.mark_cycle();
  { const TimelineSpan span(&timeline, "a", TimelinePhase::queue); }
  { const TimelineSpan none(nullptr, "a", TimelinePhase::queue); }
  CHECK_FALSE(timeline.on());
  CHECK_FALSE(timeline.take());
  CHECK(test_time == before);
  timeline.start(false);
  timeline.stop();
  timeline.begin("a", TimelinePhase::reduce);
  CHECK_FALSE(timeline.take());
  CHECK(wakes == 0);
}

TEST_CASE("a batch has names once, numbers after, and times in their order", "[timeline]") {
  test_time = 5'000'000;
  Timeline timeline({}, test_clock);
  timeline.start(true);
  timeline.mark_cycle();
  timeline.begin("b", TimelinePhase::negotiate, TimelineOp::allreduce);
  timeline.begin("a", TimelinePhase::queue);
  timeline.end("b", TimelinePhase::negotiate, TimelineOp::allreduce);
  timeline.end("a", TimelinePhase::queue);
  const auto batch = timeline.take();
  REQUIRE(batch);
  CHECK_FALSE(timeline.take());
  CHECK(batch->session == 1);
  CHECK(batch->dropped == 0);
  const TimelineEvents events = events_of(*batch);
  CHECK(events.names == std::vector<std::string>{"b", "a"});
  CHECK(events.begin_ns == 5'001'000);
  REQUIRE(events.events.size() == 5);
  CHECK(events.events[0].mark == TimelineMark::cycle);
  CHECK(events.events[1].mark == TimelineMark::begin);
  CHECK(events.events[1].phase == TimelinePhase::negotiate);
  CHECK(events.events[1].op == TimelineOp::allreduce);
  CHECK(events.events[2].name == 1);
  CHECK(events.events[3].mark == TimelineMark::end);
  CHECK(events.events[4].after_ns == 4000);

  // The next one names them again: each stands for itself.
  timeline.begin("a", TimelinePhase::reduce);
  CHECK(events_of(timeline.take().value()).names == std::vector<std::string>{"a"});
}

TEST_CASE("cycles are marked only when that was asked for", "[timeline]") {
  Timeline timeline({}, test_clock);
  timeline.start(false);
  timeline.mark_cycle();
  CHECK_FALSE(timeline.take());
  timeline.stop();
  timeline.start(true);
  timeline.mark_cycle();
  const auto batch = timeline.take();
  REQUIRE(batch);
  CHECK(batch->session == 2);
  CHECK(batch->count == 1);
}

TEST_CASE("somebody is woken by the first event, and by a whole batch of them", "[timeline]") {
  std::vector<bool> wakes;
  Timeline timeline([&](bool at_once) { wakes.push_back(at_once); }, test_clock);
  timeline.start(false);
  for (std::size_t i = 0; i < Timeline::kBatch + 10; ++i)
    timeline.begin("a", TimelinePhase::reduce);
  CHECK(wakes == std::vector<bool>{false, true});
  CHECK(take_all(timeline).size() == 2);
  timeline.end("a", TimelinePhase::reduce);
  CHECK(wakes == std::vector<bool>{false, true, false});
}

TEST_CASE("what the ring has no place for is counted, where it is missing", "[timeline]") {
  Timeline timeline({}, test_clock);
  timeline.start(false);
  constexpr std::size_t kMore = 100;
  for (std::size_t i = 0; i < Timeline::kCapacity + kMore; ++i)
    timeline.begin("a", TimelinePhase::reduce);
  auto first = timeline.take();
  REQUIRE(first);
  CHECK(first->dropped == 0);
  CHECK(first->count == Timeline::kBatch);
  // There is a place again, but no gap in the middle.
  timeline.begin("late", TimelinePhase::reduce);
  std::size_t count = first->count;
  std::uint64_t dropped = 0;
  for (const TimelineBatch& batch : take_all(timeline)) {
    count += batch.count;
    dropped += batch.dropped;
    CHECK((batch.dropped == 0 || batch.count == 0));
  }
  CHECK(count == Timeline::kCapacity);
  CHECK(dropped == kMore + 1);
  timeline.begin("again", TimelinePhase::reduce);
  const auto next = timeline.take();
  REQUIRE(next);
  CHECK(next->dropped == 0);
  CHECK(next->count == 1);
}

TEST_CASE("a new session has nothing of the one before it", "[timeline]") {
  Timeline timeline({}, test_clock);
  timeline.start(false);
  timeline.begin("old", TimelinePhase::reduce);
  timeline.start(false);
  timeline.begin("new", TimelinePhase::reduce);
  const auto batch = timeline.take();
  REQUIRE(batch);
  CHECK(batch->session == timeline.session());
  CHECK(events_of(*batch).names == std::vector<std::string>{"new"});
}

TEST_CASE("long names are cut, and any number of them is no leak", "[timeline]") {
  Timeline timeline({}, test_clock);
  timeline.start(false);
  timeline.begin(std::string(1000, 'x'), TimelinePhase::reduce);
  CHECK(events_of(timeline.take().value()).names.front().size() == limits::kMaxTimelineName);
  std::size_t count = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20'000; ++i)
      timeline.begin("tensor." + std::to_string(round) + "." + std::to_string(i),
                     TimelinePhase::reduce);
    for (const TimelineBatch& batch : take_all(timeline)) {
      CHECK(batch.dropped == 0);
      CHECK(batch.bytes.size() <= limits::kMaxTimelineBatch);
      count += events_of(batch).events.size();
    }
  }
  CHECK(count == 100'000);
}

TEST_CASE("events too far apart for one batch are in two", "[timeline]") {
  Timeline timeline({}, test_clock);
  timeline.start(false);
  timeline.begin("a", TimelinePhase::reduce);
  test_time += 5'000'000'000;
  timeline.end("a", TimelinePhase::reduce);
  const auto batches = take_all(timeline);
  REQUIRE(batches.size() == 2);
  CHECK(events_of(batches[1]).begin_ns - events_of(batches[0]).begin_ns == 5'000'001'000);
}

TEST_CASE("what a GPU has done is told late, with its own times", "[timeline]") {
  test_time = 10'000'000;
  Timeline timeline({}, test_clock);
  timeline.start(false);
  timeline.begin("a", TimelinePhase::queue);  // at 10'001'000
  timeline.gpu_begin("b", TimelineOp::allreduce, 3'000'000);
  timeline.gpu_end("b", TimelineOp::allreduce, 20'000'000);
  timeline.end("a", TimelinePhase::queue);
  const TimelineEvents events = events_of(timeline.take().value());
  REQUIRE(events.events.size() == 4);
  const auto time = [&](std::size_t i) { return events.begin_ns + events.events[i].after_ns; };
  CHECK(time(0) == 10'001'000);
  CHECK(time(1) == 3'000'000);
  CHECK(time(2) == 20'000'000);
  CHECK(time(3) == 10'002'000);
  CHECK(events.events[1].mark == TimelineMark::gpu_begin);
  CHECK(events.events[2].mark == TimelineMark::gpu_end);
  CHECK(events.events[2].phase == TimelinePhase::reduce);
  CHECK(events.events[2].op == TimelineOp::allreduce);

  // Too far apart for one batch, whichever is the earlier.
  test_time = 10'000'000'000;
  timeline.begin("a", TimelinePhase::queue);
  timeline.gpu_begin("b", TimelineOp::allreduce, 1'000'000'000);
  timeline.gpu_end("b", TimelineOp::allreduce, 2'000'000'000);
  timeline.end("a", TimelinePhase::queue);
  const auto batches = take_all(timeline);
  REQUIRE(batches.size() == 3);
  CHECK(events_of(batches[1]).begin_ns == 1'000'000'000);
  CHECK(events_of(batches[1]).events.size() == 2);
}

TEST_CASE("threads record while another takes", "[timeline]") {
  Timeline timeline;
  timeline.start(true);
  constexpr int kThreads = 3;
  constexpr int kEvents = 20'000;
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, name = "tensor " + std::to_string(t)] {
      for (int i = 0; i < kEvents / 2; ++i)
        const TimelineSpan span(&timeline, name, TimelinePhase::reduce);
      --running;
    });
  std::uint64_t count = 0;
  std::uint64_t last = 0;
  const auto take = [&] {
    while (const auto batch = timeline.take()) {
      count += batch->dropped + batch->count;
      if (batch->count == 0) continue;
      const TimelineEvents events = events_of(*batch);
      const bool in_order = events.begin_ns >= last;
      CHECK(in_order);
      last = events.begin_ns + events.events.back().after_ns;
    }
  };
  while (running > 0) take();
  for (std::thread& thread : threads) thread.join();
  take();
  CHECK(count == std::uint64_t{kThreads} * kEvents);
}

}  // namespace
}  // namespace hvdrun
