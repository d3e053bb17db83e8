#include <fcntl.h>
#include <random>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/options/options.h"
#include "cli/timeline/timeline_file.h"
#include "cli/timeline/timeline_sink.h"
#include "common/base/environment.h"
#include "tests/catch.h"
#include "tests/soak.h"
#include "tests/unit/cli/trace.h"

namespace hvdrun {
namespace {

using test::ask_json;
using test::file_text;
using test::TemporaryFolder;
using test::TestBatch;
using Existing = TimelineFile::Existing;

// Objects {"n":N,...} of about these sizes.
TraceEvents objects(int first, const std::vector<std::size_t>& sizes) {
  TraceEvents events;
  for (const std::size_t size : sizes)
    events.add("{\"n\":" + std::to_string(first++) + ",\"x\":\"" + std::string(size, 'x') + "\"}");
  return events;
}

TEST_CASE("after every write the file is the array so far", "[timeline]") {
  std::mt19937_64 random(test::soak_seed("timeline writes"));
  std::string file(kEmptyTimeline);
  std::vector<std::string> states{file};
  std::vector<std::size_t> lengths;
  std::uint64_t end = 1;
  int count = 0;
  for (int flush = 0; flush < 20; ++flush) {
    std::vector<std::size_t> sizes(random() % 60);
    for (std::size_t& size : sizes) size = random() % (random() % 10 == 0 ? 9000 : 200);
    const auto pieces = cut_timeline(end, count == 0, objects(count, sizes));
    count += static_cast<int>(sizes.size());
    for (const TimelinePiece& piece : pieces) {
      // It begins behind the last element, and covers the end of the array.
      REQUIRE(piece.at == end);
      REQUIRE(file.substr(end) == kTimelineEnd);
      REQUIRE(piece.bytes.size() > kTimelineEnd.size());
      const std::uint64_t last = piece.at + piece.bytes.size() - 1;
      const bool one_event = piece.bytes.find("},\n{") == std::string::npos;
      const bool in_page = piece.at / 4096 == last / 4096 || one_event;
      CHECK(in_page);
      file.replace(piece.at, std::string::npos, piece.bytes);
      end = file.size() - kTimelineEnd.size();
      states.push_back(file);
    }
  }
  CHECK(ask_json(states, "all([e['n'] for e in t] == list(range(len(t))) for t in texts)") ==
        "True");
  CHECK(ask_json({file}, "len(texts[0])") == std::to_string(count));
}

TEST_CASE("events are appended to a file", "[timeline]") {
  const TemporaryFolder folder;
  folder.write("t.json", std::string(100'000, 'o'));
  TimelineFile file(folder / "t.json", Existing::overwrite);
  std::vector<std::string> states{file_text(folder / "t.json")};
  for (int i = 0; i < 50; ++i) {
    REQUIRE_FALSE(file.append(objects(3 * i, {50, 100, 400})));
    states.push_back(file_text(folder / "t.json"));
  }
  CHECK(ask_json(states, "[len(t) for t in texts] == [3 * i for i in range(51)]") == "True");
}

TEST_CASE("a full disk ends the array, and leaves it whole", "[timeline]") {
  const TemporaryFolder folder;
  TimelineFile file(folder / "t.json", Existing::overwrite);
  REQUIRE_FALSE(file.append(objects(0, {1000, 1000})));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 10'000;
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  const std::error_code ec = file.append(objects(2, {1000, 1000, 9000, 1000}));
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  ::signal(SIGXFSZ, handler);
  CHECK(ec == std::errc::file_too_large);
  CHECK_FALSE(file.append(objects(9, {10})));  // said once
  CHECK(ask_json({file_text(folder / "t.json")}, "[e['n'] for e in texts[0]]") == "[0, 1, 2, 3]");
}

TEST_CASE("a file that cannot be a timeline stays as it is", "[timeline]") {
  const TemporaryFolder folder;
  folder.write("mine.json", "{\"precious\":1}");
  folder.write("mine.txt", "");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(TimelineFile(folder / "no/t.json", Existing::overwrite), std::system_error);
  CHECK_THROWS_AS(TimelineFile(folder.path(), Existing::overwrite), std::system_error);
  CHECK_THROWS(TimelineFile(folder / "pipe", Existing::overwrite));
  CHECK_THROWS_AS(TimelineFile("/dev/null", Existing::overwrite), UsageError);
  CHECK_THROWS_AS(TimelineFile(folder / "mine.json", Existing::only_ours), UsageError);
  CHECK_THROWS_AS(TimelineFile(folder / "mine.txt", Existing::only_ours), UsageError);
  CHECK(file_text(folder / "mine.json") == "{\"precious\":1}");
  {
    TimelineFile ours(folder / "t.json", Existing::only_ours);
    CHECK_THROWS_WITH(TimelineFile(folder / "t.json", Existing::overwrite),
                      Catch::Contains("another hvdrun is writing"));
    REQUIRE_FALSE(ours.append(objects(0, {10})));
  }
  const TimelineFile again(folder / "t.json", Existing::only_ours);
  CHECK(file_text(folder / "t.json") == kEmptyTimeline);
}

TEST_CASE("the ranks' environment says where the timeline goes", "[timeline]") {
  CHECK(timeline_options({}).file.empty());
  CHECK(timeline_options({"HOROVOD_TIMELINE=a"}).file == "a");
  CHECK(timeline_options({"HOROVOD_TIMELINE=a", "HVD_TIMELINE=b"}).file == "b");
  CHECK(timeline_options({"HVD_TIMELINE="}).file.empty());
  const TimelineOptions dynamic = timeline_options({"HOROVOD_TIMELINE=DYNAMIC"});
  CHECK(dynamic.dynamic);
  CHECK(dynamic.file.empty());
}

struct SinkFixture {
  void open(TimelineOptions options) {
    sink.emplace(std::move(options));
    sink->set_job({{{"a", 2}}, 2}, [this](const std::string& text) { said.push_back(text); });
  }
  std::string names(const std::string& file) const {
    return ask_json({file_text(folder / file)},
                    "' '.join(e['name'] + str(e['pid']) for e in texts[0] if e['ph'] != 'M')");
  }
  static TimelineControl start(std::uint32_t rank, std::uint32_t session, std::string path) {
    return {rank, session, true, std::move(path)};
  }
  static TimelineControl stop(std::uint32_t rank, std::uint32_t session) {
    return {rank, session, false, {}};
  }
  TemporaryFolder folder;
  std::vector<std::string> said;
  std::optional<TimelineSink> sink;
};

TEST_CASE_METHOD(SinkFixture, "a named timeline is written from the start to the end",
                 "[timeline]") {
  open({folder / "t.json", false});
  CHECK(file_text(folder / "t.json") == kEmptyTimeline);
  // libhvd counts anew after each init().
  sink->batch(TestBatch(0).session(1).cycle(1));
  sink->batch(TestBatch(1).session(2).begin(1, "a", TimelinePhase::queue));
  CHECK(names("t.json") == "CYCLE_START0");
  sink->control(start(0, 2, folder / "other.json"));
  sink->control(start(0, 2, folder / "other.json"));
  CHECK(said.size() == 1);
  sink->control(stop(0, 1));
  sink->finish();
  CHECK(names("t.json") == "CYCLE_START0 QUEUE1");
  sink->batch(TestBatch(0).cycle(2));
  sink->finish();
  CHECK(names("t.json") == "CYCLE_START0 QUEUE1");
  CHECK(::access((folder / "other.json").c_str(), F_OK) != 0);
}

TEST_CASE_METHOD(SinkFixture, "a program's timeline lasts from rank 0's start to the last stop",
                 "[timeline]") {
  open({{}, true});
  sink->control(start(1, 1, folder / "not.json"));
  sink->control(start(0, 1, folder / "1.json"));
  sink->batch(TestBatch(0).cycle(1));
  sink->control(stop(0, 1));
  sink->batch(TestBatch(1).cycle(2));
  sink->control(stop(1, 1));
  CHECK(names("1.json") == "CYCLE_START0 CYCLE_START1");
  sink->batch(TestBatch(1).cycle(3));

  sink->control(start(0, 2, folder / "2.json"));
  sink->batch(TestBatch(1).session(1).cycle(4));  // too late
  sink->control(stop(0, 2));
  sink->control(start(0, 3, folder / "3.json"));  // rank 1 has not stopped the one before
  sink->batch(TestBatch(0).session(3).cycle(5));
  sink->batch(TestBatch(1).session(2).cycle(6));
  sink->control(stop(1, 2));
  sink->batch(TestBatch(1).session(2).cycle(7));
  sink->finish();
  CHECK(names("1.json") == "CYCLE_START0 CYCLE_START1");
  CHECK(names("2.json") == "CYCLE_START1");
  CHECK(names("3.json") == "CYCLE_START0");
  CHECK(said.empty());
  CHECK(::access((folder / "not.json").c_str(), F_OK) != 0);
}

TEST_CASE_METHOD(SinkFixture, "a program that never stops has few files open", "[timeline]") {
  open({{}, true});
  for (std::uint32_t session = 1; session <= 20; ++session) {
    sink->control(start(0, session, folder / (std::to_string(session % 10) + ".json")));
    sink->batch(TestBatch(0).session(session).begin(session, "a", TimelinePhase::queue));
  }
  sink->batch(TestBatch(0).session(1).cycle(1));
  // The same name again, of a file that is still written.
  sink->control(start(0, 21, folder / "0.json"));
  CHECK(said.empty());
  CHECK(names("0.json").empty());
  CHECK(names("1.json") == "QUEUE0");
}

TEST_CASE_METHOD(SinkFixture, "what overtakes rank 0's start waits for it", "[timeline]") {
  open({{}, true});
  sink->batch(TestBatch(1).session(1).cycle(1));
  sink->control(stop(1, 1));
  sink->batch(TestBatch(1).session(2).cycle(2));
  CHECK(said.empty());
  SECTION("and is in its file") {
    sink->control(start(0, 1, folder / "1.json"));
    CHECK(names("1.json") == "CYCLE_START1");
    sink->control(stop(0, 1));
    sink->control(start(0, 2, folder / "2.json"));
    sink->batch(TestBatch(0).session(2).cycle(2));
    CHECK(names("1.json") == "CYCLE_START1");
    CHECK(names("2.json") == "CYCLE_START1 CYCLE_START0");
  }
  SECTION("as much as there is room for") {
    TimelineBatch batch = TestBatch(0).session(1).cycle(3);
    for (int i = 0; i < 100'000; ++i) sink->batch(batch);
    sink->control(start(0, 1, folder / "1.json"));
    sink->finish();
    CHECK(ask_json({file_text(folder / "1.json")},
                   "sum(e.get('args', {}).get('count', 1) for e in texts[0] if e['ph'] == 'i')") ==
          "100001");
  }
}

TEST_CASE_METHOD(SinkFixture, "a timeline that goes wrong is one line, and no more is written",
                 "[timeline]") {
  open({{}, true});
  folder.write("mine.json", "mine");
  sink->control(start(0, 1, folder / "mine.json"));
  sink->control(start(0, 2, ""));
  sink->control(start(0, 3, std::string("a\0b.json", 8)));
  sink->control(start(0, 4, "/no/such/t.json"));
  CHECK(said.size() == 4);
  sink->batch(TestBatch(0).session(4).cycle(1));
  sink->control(start(0, 5, folder / "t.json"));
  TimelineBatch rubbish = TestBatch(1).session(5).cycle(1);
  rubbish.bytes += "x";
  sink->batch(rubbish);
  sink->batch(rubbish);
  REQUIRE(said.size() == 5);
  CHECK(said.back() ==
        "rank 1 sent timeline events that hvdrun does not understand; they are left out");
  sink->finish();
  CHECK(file_text(folder / "mine.json") == "mine");
  CHECK(names("t.json").empty());
}

}  // namespace
}  // namespace hvdrun
