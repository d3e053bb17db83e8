#include <random>

#include "cli/timeline/timeline_format.h"
#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/cli/trace.h"

namespace hvdrun {
namespace {

using test::ask_json;
using test::TestBatch;
using Phase = TimelinePhase;

struct FormatFixture {
  FormatFixture() : format([](std::uint32_t rank) { return "host" + std::to_string(rank / 2); }) {}

  bool add(const TimelineBatch& batch) { return format.add(batch, events); }
  std::string json() const {
    std::string text = "[";
    std::size_t begin = 0;
    for (const std::size_t end : events.ends) {
      if (begin != 0) text += ",";
      text += events.text.substr(begin, end - begin);
      begin = end;
    }
    return text + "]";
  }
  // A Python expression over the list of events.
  std::string ask(const std::string& question) const {
    return ask_json({json()}, "(lambda events: " + question + ")(texts[0])");
  }
  // The events that are no metadata: name, begin, duration, rank and lane.
  std::string shown() const {
    return ask(
        "'; '.join(f\"{e['name']} {e['ts']:g} {e.get('dur', -1):g} {e['pid']}/{e['tid'] % 1024}\" "
        "for e in events if e['ph'] != 'M')");
  }

  TimelineFormat format;
  TraceEvents events;
};

TEST_CASE_METHOD(FormatFixture, "phases of a tensor are in a row on its lane", "[timeline]") {
  REQUIRE(add(TestBatch(3, 1000)
                  .cycle(0)
                  .begin(1, "a", Phase::negotiate, TimelineOp::allreduce)
                  .end(2, "a", Phase::negotiate)
                  .begin(3, "a", Phase::queue)
                  .begin(4, "b", Phase::queue)
                  .end(5, "a", Phase::queue)
                  .begin(6, "a", Phase::reduce, TimelineOp::allreduce)
                  .end(9, "a", Phase::reduce)
                  .end(11, "b", Phase::queue)));
  CHECK(shown() ==
        "CYCLE_START 1000 -1 3/1023; NEGOTIATE_ALLREDUCE 1001 1 3/1; QUEUE 1003 2 3/1; "
        "ALLREDUCE 1006 3 3/1; QUEUE 1004 7 3/2");
  CHECK(ask("[e['args']['name'] for e in events if e['name'].endswith('_name')]") ==
        "['rank 3 (host1)', 'cycles', 'a', 'b']");
  CHECK(ask("[e['args']['sort_index'] for e in events if e['name'] == 'process_sort_index']") ==
        "[3]");
  CHECK(ask("sorted({e['tid'] // 1024 for e in events if 'tid' in e})") == "[3]");
}

TEST_CASE_METHOD(FormatFixture, "every phase and operation has Horovod's name", "[timeline]") {
  TestBatch batch(0);
  std::uint32_t at = 0;
  for (int op = 0; op <= 9; ++op) {
    for (int phase = 1; phase <= 5; ++phase, at += 2) {
      batch.begin(at, "t", static_cast<Phase>(phase), static_cast<TimelineOp>(op));
      batch.end(at + 1, "t", static_cast<Phase>(phase));
    }
  }
  REQUIRE(add(batch));
  CHECK(ask("' '.join(sorted({e['name'] for e in events if e['ph'] == 'X'}))") ==
        "ADASUM ALLGATHER ALLREDUCE ALLTOALL BARRIER BROADCAST JOIN MEMCPY_IN_FUSION_BUFFER "
        "MEMCPY_OUT_FUSION_BUFFER NEGOTIATE NEGOTIATE_ADASUM NEGOTIATE_ALLGATHER "
        "NEGOTIATE_ALLREDUCE NEGOTIATE_ALLTOALL NEGOTIATE_BARRIER NEGOTIATE_BROADCAST "
        "NEGOTIATE_JOIN NEGOTIATE_REDUCESCATTER QUEUE REDUCE REDUCESCATTER");
}

TEST_CASE_METHOD(FormatFixture, "what the program does has a name, too", "[timeline]") {
  TestBatch batch(0);
  for (std::uint32_t phase = 6; phase <= 10; ++phase) {
    batch.begin(phase, "t", static_cast<Phase>(phase));
    batch.end(phase, "t", static_cast<Phase>(phase));
  }
  REQUIRE(add(batch));
  CHECK(ask("' '.join(e['name'] for e in events if e['ph'] == 'X')") ==
        "DATA FORWARD BACKWARD SYNCHRONIZE STEP");
  CHECK_FALSE(add(TestBatch(0).begin(20, "t", static_cast<Phase>(11))));
}

TEST_CASE_METHOD(FormatFixture, "a phase goes on from batch to batch, on hvdrun's clock",
                 "[timeline]") {
  REQUIRE(add(TestBatch(0, 5000).ahead(100).begin(0, "a", Phase::reduce)));
  // A better estimate of the clock does not turn time back.
  REQUIRE(add(TestBatch(0, 5010).ahead(80).end(0, "a", Phase::reduce).cycle(50)));
  // Behind hvdrun's.
  REQUIRE(add(TestBatch(1, 9000).ahead(std::uint64_t{0} - 8000).cycle(0)));
  CHECK(shown() == "REDUCE 5100 0 0/1; CYCLE_START 5140 -1 0/1023; CYCLE_START 1000 -1 1/1023");
}

TEST_CASE_METHOD(FormatFixture, "what does not fit together never overlaps", "[timeline]") {
  REQUIRE(add(TestBatch(0)
                  .end(1, "a", Phase::queue)  // started within it
                  .begin(2, "a", Phase::negotiate)
                  .begin(3, "a", Phase::queue)
                  .end(5, "a", Phase::negotiate)  // the queue ends with it
                  .end(6, "a", Phase::queue)));
  CHECK(shown() == "QUEUE 3 2 0/1; NEGOTIATE 2 3 0/1");
}

TEST_CASE_METHOD(FormatFixture, "what is under way in the end is written as unfinished",
                 "[timeline]") {
  REQUIRE(add(TestBatch(0).begin(2, "a", Phase::negotiate).begin(3, "a", Phase::reduce)));
  format.finish(10'000, events);
  CHECK(shown() == "REDUCE 3 7 0/1; NEGOTIATE 2 8 0/1");
  CHECK(ask("[e['args'] for e in events if e['ph'] == 'X']") ==
        "[{'unfinished': True}, {'unfinished': True}]");
}

TEST_CASE_METHOD(FormatFixture, "a GPU's time has rows of its own, however late it is told",
                 "[timeline]") {
  REQUIRE(add(TestBatch(0)
                  .begin(1, "a", Phase::negotiate, TimelineOp::allreduce)
                  .end(2, "a", Phase::negotiate)
                  .begin(8, "a", Phase::queue)
                  .gpu(3, "a", true)
                  .gpu(5, "a", false)
                  .gpu(5, "b", true, TimelineOp::broadcast)
                  .gpu(9, "b", false, TimelineOp::broadcast)
                  .end(9, "a", Phase::queue)));
  // Ends alone, and begins before the last end, as another estimate of the clock has it.
  REQUIRE(add(
      TestBatch(0, 7).gpu(0, "c", false).gpu(1, "b", true).gpu(4, "b", false).gpu(5, "a", true)));
  CHECK(shown() ==
        "NEGOTIATE_ALLREDUCE 1 1 0/1; ALLREDUCE 3 2 0/769; BROADCAST 5 4 0/770; QUEUE 8 1 0/1; "
        "ALLREDUCE 9 2 0/770");
  CHECK(ask("[e['args']['name'] for e in events if e['name'] == 'thread_name']") ==
        "['a', 'a (GPU)', 'b (GPU)', 'c (GPU)']");
  format.finish(20'000, events);
  CHECK(ask("[(e['ts'], e['dur'], e.get('args')) for e in events if e['ph'] == 'X'][-1]") ==
        "(12.0, 8.0, {'tensor': 'a', 'unfinished': True})");
}

TEST_CASE_METHOD(FormatFixture, "a GPU has rows for many tensors, and none for more",
                 "[timeline]") {
  TestBatch batch(0);
  for (std::uint32_t i = 0; i < 300; ++i)
    batch.gpu(i, "t" + std::to_string(i), true).gpu(i + 1, "t" + std::to_string(i), false);
  REQUIRE(add(batch));
  CHECK(ask("len([e for e in events if e['ph'] == 'X'])") ==
        std::to_string(TimelineFormat::kGpuLanes));
  CHECK(ask("max(e['tid'] for e in events if e['ph'] == 'X')") == "1022");
}

TEST_CASE_METHOD(FormatFixture, "a gap is told, and nothing lasts over it", "[timeline]") {
  REQUIRE(add(TestBatch(0).begin(2, "a", Phase::reduce)));
  REQUIRE(add(TestBatch(0, 5).dropped(77).end(1, "a", Phase::reduce)));
  REQUIRE(add(TestBatch(0).dropped(3)));
  format.finish(10'000, events);
  CHECK(shown() == "EVENTS_DROPPED 5 -1 0/1023; EVENTS_DROPPED 6 -1 0/1023");
  CHECK(ask("[e['args']['count'] for e in events if e['ph'] == 'i']") == "[77, 3]");
}

TEST_CASE_METHOD(FormatFixture, "names are any bytes", "[timeline]") {
  const std::string name =
      "a\"b\\c\n\x01\x7f\xc3\xa4\xff</script>" + std::string(1, '\0') + "\xe2\x28";
  REQUIRE(add(TestBatch(0).begin(1, name, Phase::reduce).end(2, name, Phase::reduce)));
  CHECK(ask("ascii([e['args']['name'] for e in events if e['name'] == 'thread_name'][0])") ==
        "'a\"b\\\\c\\n\\x01\\x7f\\xe4\\ufffd</script>\\x00\\ufffd('");
}

TEST_CASE_METHOD(FormatFixture, "more tensors than lanes share some, which are named",
                 "[timeline]") {
  constexpr int kMany = 700;
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < kMany; ++i) {
      const std::string name = "noname." + std::to_string(i);
      REQUIRE(add(TestBatch(0, static_cast<std::uint64_t>(10 * (round * kMany + i)))
                      .begin(0, name, Phase::reduce)
                      .begin(0, "guest " + name, Phase::reduce)
                      .end(5, name, Phase::reduce)
                      .end(6, "guest " + name, Phase::reduce)));
    }
  CHECK(ask("len([e for e in events if e['ph'] == 'X'])") == "4200");
  CHECK(ask("len({e['tid'] for e in events if e['ph'] == 'X'})") == "514");
  CHECK(ask("sum(e['args']['name'] == 'other tensors' for e in events if 'thread_name' == "
            "e['name'])") == "2");
  CHECK(ask("all(('args' in e) == (e['tid'] > 512) for e in events if e['ph'] == 'X')") == "True");
}

TEST_CASE_METHOD(FormatFixture, "more at once than there are lanes are left out", "[timeline]") {
  TestBatch batch(0);
  for (std::uint32_t i = 0; i < 1000; ++i) batch.begin(i, "t" + std::to_string(i), Phase::reduce);
  for (std::uint32_t i = 0; i < 1000; ++i)
    batch.end(1000 + i, "t" + std::to_string(i), Phase::reduce);
  REQUIRE(add(batch));
  CHECK(ask("len([e for e in events if e['ph'] == 'X'])") ==
        std::to_string(TimelineFormat::kTensorLanes + TimelineFormat::kSharedLanes));
}

TEST_CASE_METHOD(FormatFixture, "events that make no sense are refused, and leave nothing",
                 "[timeline]") {
  TimelineBatch rubbish = TestBatch(0).cycle(1);
  rubbish.bytes.pop_back();
  CHECK_FALSE(add(rubbish));
  CHECK_FALSE(add(TestBatch(0).add({0, 0, TimelineMark::begin, Phase::reduce, TimelineOp::none})));
  CHECK_FALSE(add(TestBatch(0).begin(0, "a", static_cast<Phase>(0))));
  CHECK_FALSE(add(TestBatch(0).begin(0, "a", static_cast<Phase>(11))));
  CHECK_FALSE(add(TestBatch(0).add({0, 0, static_cast<TimelineMark>(9), {}, TimelineOp::none})));
  CHECK_FALSE(add(TestBatch(0).cycle(2).cycle(1)));
  CHECK_FALSE(add(TestBatch(0).begin(0, std::string(257, 'x'), Phase::queue)));
  CHECK(add(TestBatch(0)));  // nothing
  CHECK(events.ends.empty());
}

TEST_CASE_METHOD(FormatFixture, "whatever comes, phases on a lane are inside each other or apart",
                 "[timeline]") {
  std::mt19937_64 random(test::soak_seed("timeline nesting"));
  const auto upto = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  std::uint64_t now = 0;
  for (std::size_t i = 0; i < test::soak_count(5000); ++i) {
    TestBatch batch(upto(3), now);
    if (upto(20) == 0) batch.dropped(1);
    batch.ahead(upto(50));
    std::uint32_t at = 0;
    for (std::uint32_t k = upto(30); k > 0; --k) {
      const std::string tensor = "t" + std::to_string(upto(upto(10) == 0 ? 2000 : 4));
      const auto phase = static_cast<Phase>(1 + upto(5));
      at += upto(3);
      upto(2) == 0 ? batch.begin(at, tensor, phase) : batch.end(at, tensor, phase);
      if (upto(3) == 0) batch.gpu(upto(100), tensor, upto(2) == 0);
    }
    now += at;
    REQUIRE(add(batch));
  }
  format.finish(now * 1000, events);
  const test::TemporaryFolder folder;
  folder.write("t.json", json());
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  const std::string command = "/usr/bin/python3 " + std::string(source) +
                              "/tests/integration/programs/check_timeline.py " +
                              (folder / "t.json") + " >/dev/null";
  CHECK(std::system(command.c_str()) == 0);  // NOLINT(concurrency-mt-unsafe)
}

}  // namespace
}  // namespace hvdrun
