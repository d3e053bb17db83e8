// The timeline's way over a worker's line: what goes, when, and what does not.
#include <future>
#include <map>
#include <mutex>
#include <thread>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/client/fake_agent.h"
#include "worker/hvd/client/agent_connection.h"
#include "worker/hvd/client/timeline_settings.h"

using namespace hvdrun;
using namespace hvdrun::test;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::uint32_t kTimelineEpoch = 5;

WorkerEnvironment timeline_environment(const std::string& agent) {
  WorkerEnvironment env;
  env.agent = agent;
  env.job_id = std::string(32, 'c');
  env.size = 2;
  env.local_size = 2;
  return env;
}

AgentConnection::Deadline soon() { return steady_clock::now() + milliseconds(5000); }

// So many batches, and how often somebody asked for one.
struct FakeTimeline {
  std::optional<TimelineBatch> take() {
    const std::lock_guard<std::mutex> lock(mutex);
    ++asked;
    if (left == 0) return std::nullopt;
    --left;
    TimelineBatch batch;
    batch.session = 1;
    batch.count = 1;
    batch.bytes = std::string(size, 'e');
    return batch;
  }
  std::mutex mutex;
  int left = 0;
  int asked = 0;
  std::size_t size = 10;
};

TimelineSettings settings_of(const std::map<std::string, std::string>& env) {
  return read_timeline_settings([&](const char* name) -> std::optional<std::string> {
    const auto found = env.find(name);
    if (found == env.end()) return std::nullopt;
    return found->second;
  });
}

}  // namespace

TEST_CASE("the environment says whether there is a timeline", "[client]") {
  CHECK_FALSE(settings_of({}).from_start);
  CHECK_FALSE(settings_of({{"HOROVOD_TIMELINE", ""}}).from_start);
  const TimelineSettings horovod = settings_of({{"HOROVOD_TIMELINE", "t.json"}});
  CHECK(horovod.from_start);
  CHECK_FALSE(horovod.dynamic);
  CHECK_FALSE(horovod.mark_cycles);
  const TimelineSettings own =
      settings_of({{"HOROVOD_TIMELINE", "t.json"}, {"HVD_TIMELINE", "DYNAMIC"}});
  CHECK(own.dynamic);
  CHECK_FALSE(own.from_start);
  CHECK_FALSE(settings_of({{"HVD_TIMELINE", ""}, {"HOROVOD_TIMELINE", "t.json"}}).from_start);
  CHECK(settings_of({{"HVD_TIMELINE_MARK_CYCLES", "1"}}).mark_cycles);
  CHECK(settings_of({{"HOROVOD_TIMELINE_MARK_CYCLES", "1"}}).mark_cycles);
  CHECK_FALSE(settings_of({{"HOROVOD_TIMELINE_MARK_CYCLES", "0"}}).mark_cycles);
}

TEST_CASE("events go a moment after there are some, with the rank's number", "[client]") {
  std::promise<steady_clock::time_point> came;
  FakeAgent agent([&](FakeAgentPeer& peer) {
    peer.let_in(kTimelineEpoch, one_host(0, 2));
    const auto batch = peer.read<TimelineBatch>(kTimelineEpoch);
    came.set_value(steady_clock::now());
    CHECK(batch.rank == 0);
    CHECK(batch.bytes.size() == 10);
    peer.read<TimelineBatch>(kTimelineEpoch);
    peer.at_end();
  });
  FakeTimeline timeline;
  AgentConnection connection(timeline_environment(agent.name()), soon());
  connection.set_timeline([&] { return timeline.take(); });
  timeline.left = 2;
  const auto begin = steady_clock::now();
  connection.timeline_ready(false);
  connection.timeline_ready(false);
  CHECK(came.get_future().get() - begin >= milliseconds(190));
}

TEST_CASE("a whole batch goes at once", "[client]") {
  std::promise<steady_clock::time_point> came;
  FakeAgent agent([&](FakeAgentPeer& peer) {
    peer.let_in(kTimelineEpoch, one_host(0, 2));
    peer.read<TimelineBatch>(kTimelineEpoch);
    came.set_value(steady_clock::now());
    peer.at_end();
  });
  FakeTimeline timeline;
  AgentConnection connection(timeline_environment(agent.name()), soon());
  connection.set_timeline([&] { return timeline.take(); });
  timeline.left = 1;
  const auto begin = steady_clock::now();
  connection.timeline_ready(false);
  connection.timeline_ready(true);
  CHECK(came.get_future().get() - begin < milliseconds(150));
}

TEST_CASE("nobody asks for events of a timeline that is idle", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.let_in(kTimelineEpoch, one_host(0, 2));
    for (int i = 0; i < 5; ++i) {
      const auto put = peer.read<StorePut>(kTimelineEpoch);
      peer.send(StoreAck{put.request, Errc::ok}, kTimelineEpoch);
    }
    peer.at_end();
  });
  FakeTimeline timeline;
  AgentConnection connection(timeline_environment(agent.name()), soon());
  connection.set_timeline([&] { return timeline.take(); });
  for (int i = 0; i < 5; ++i) connection.put("k", "v", soon());
  connection.set_timeline({});
  CHECK(timeline.asked == 0);
}

TEST_CASE("what is left goes before a stop, a trouble and a goodbye", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.let_in(kTimelineEpoch, one_host(0, 2));
    const auto start = peer.read<TimelineControl>(kTimelineEpoch);
    CHECK(start.on);
    CHECK(start.session == 3);
    CHECK(start.path == "t.json");
    peer.read<TimelineBatch>(kTimelineEpoch);
    CHECK_FALSE(peer.read<TimelineControl>(kTimelineEpoch).on);
    peer.read<TimelineBatch>(kTimelineEpoch);
    peer.read<CollectiveFailed>(kTimelineEpoch);
    peer.read<TimelineBatch>(kTimelineEpoch);
    peer.read<WorkerLeave>(kTimelineEpoch);
  });
  FakeTimeline timeline;
  AgentConnection connection(timeline_environment(agent.name()), soon());
  connection.set_timeline([&] { return timeline.take(); });
  connection.start_timeline(3, "t.json");
  timeline.left = 1;
  connection.stop_timeline(3);
  timeline.left = 1;
  connection.report(hvd::Error(hvd::ErrorCode::timeout, "late"));
  timeline.left = 1;
  connection.leave();
  connection.set_timeline({});
  agent.finish();
}

TEST_CASE("an agent that does not read is sent no events, and gets the rest later", "[client]") {
  constexpr int kBatches = 200;
  std::promise<void> read_on;
  FakeAgent agent([&](FakeAgentPeer& peer) {
    peer.let_in(kTimelineEpoch, one_host(0, 2));
    read_on.get_future().wait();
    for (int i = 0; i < kBatches; ++i) peer.read<TimelineBatch>(kTimelineEpoch);
  });
  FakeTimeline timeline;
  timeline.size = 64U << 10;
  AgentConnection connection(timeline_environment(agent.name()), soon());
  connection.set_timeline([&] { return timeline.take(); });
  {
    const std::lock_guard<std::mutex> lock(timeline.mutex);
    timeline.left = kBatches;
  }
  connection.timeline_ready(true);
  // Stops when the socket and the line's own patience are full, and looks again from time to time.
  int before = -1;
  int now = kBatches;
  for (int i = 0; i < 100 && now != before; ++i) {
    std::this_thread::sleep_for(milliseconds(50));
    const std::lock_guard<std::mutex> lock(timeline.mutex);
    before = std::exchange(now, timeline.left);
  }
  CHECK(now > kBatches / 2);
  read_on.set_value();
  agent.finish();
  const std::lock_guard<std::mutex> lock(timeline.mutex);
  CHECK(timeline.left == 0);
}
