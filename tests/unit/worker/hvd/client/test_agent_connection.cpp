#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <sys/stat.h>
#include <thread>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/client/fake_agent.h"
#include "worker/hvd/client/agent_connection.h"

using namespace hvdrun;
using namespace hvdrun::test;
using hvd::ErrorCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr std::uint32_t kEpoch = 3;

AgentConnection::Deadline in(int ms) { return steady_clock::now() + milliseconds(ms); }

WorkerEnvironment environment(const std::string& agent) {
  WorkerEnvironment env;
  env.agent = agent;
  env.job_id = std::string(32, 'b');
  env.size = 2;
  env.local_size = 2;
  return env;
}

struct Caught {
  ErrorCode code{};
  std::string text;
};

template <class F>
Caught caught(F body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return {error.code(), error.what()};
  }
  return {};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

TEST_CASE("a worker joins, meets, stores, gets memory and leaves", "[client]") {
  const std::size_t before = open_descriptors();
  {
    FakeAgent agent([](FakeAgentPeer& peer) {
      peer.let_in(kEpoch, one_host(0, 2));
      const auto fence = peer.read<FenceEnter>(kEpoch);
      peer.send(FenceRelease{fence.fence, fence.blob + "!"}, kEpoch);
      const auto put = peer.read<StorePut>(kEpoch);
      peer.send(StoreAck{put.request, Errc::ok}, kEpoch);
      const auto get = peer.read<StoreGet>(kEpoch);
      peer.send(StoreValue{get.request, Errc::ok, put.value}, kEpoch);
      const auto missing = peer.read<StoreGet>(kEpoch);
      peer.send(StoreValue{missing.request, Errc::timeout, ""}, kEpoch);
      const auto segment = peer.read<SegmentGet>(kEpoch);
      const UniqueFd memory = make_memfd(segment.size);
      const UniqueFd surplus = make_memfd(1);
      peer.send(Segment{segment.request, Errc::ok, segment.size}, kEpoch,
                {memory.get(), surplus.get()});
      const auto refused = peer.read<SegmentGet>(kEpoch);
      peer.send(Segment{refused.request, Errc::mismatch, 0}, kEpoch);
      peer.read<WorkerLeave>(kEpoch);
      if (!peer.at_end()) throw std::runtime_error("frames after the goodbye");
    });
    {
      AgentConnection connection(environment(agent.name()), in(5000));
      CHECK(connection.epoch() == kEpoch);
      CHECK(connection.topology().size == 2);
      CHECK(connection.fence("id", in(5000)) == "id!");
      connection.put("key", "value", in(5000));
      CHECK(connection.get("key", in(5000)).value_or("") == "value");
      CHECK_FALSE(connection.get("other", in(100)).has_value());
      const UniqueFd memory = connection.segment("world", 8192, in(5000));
      struct stat status {};
      REQUIRE(::fstat(memory.get(), &status) == 0);
      CHECK(status.st_size == 8192);
      CHECK(contains(caught([&] { connection.segment("world", 1, in(5000)); }).text,
                     "the ranks disagree"));
      connection.leave();
    }
    agent.finish();
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("answers arrive in any split", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.read<Hello>(0);
    peer.read<WorkerJoin>(0);
    const std::string bytes = encode_frame(Welcome{}) + encode_frame(one_host(0, 2), kEpoch);
    for (const char byte : bytes) send_bytes(peer.socket(), {&byte, 1});
    const auto segment = peer.read<SegmentGet>(kEpoch);
    const UniqueFd memory = make_memfd(segment.size);
    const std::string answer = encode_frame(Segment{segment.request, Errc::ok, 4096}, kEpoch);
    send_bytes(peer.socket(), answer.substr(0, 1), {memory.get()});
    for (std::size_t i = 1; i < answer.size(); ++i) send_bytes(peer.socket(), answer.substr(i, 1));
  });
  AgentConnection connection(environment(agent.name()), in(5000));
  CHECK(connection.segment("world", 4096, in(5000)));
  agent.finish();
}

TEST_CASE("a refused worker says why", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.read<Hello>(0);
    peer.send(Refuse{Errc::wrong_job, "this host runs job 12"}, 0);
  });
  const Caught error =
      caught([&] { AgentConnection connection(environment(agent.name()), in(5000)); });
  CHECK(error.code == ErrorCode::unavailable);
  CHECK(contains(error.text, "the agent refused this worker: this host runs job 12"));
}

TEST_CASE("an agent that is not there or does not answer is named", "[client]") {
  const Caught missing =
      caught([] { AgentConnection connection(environment("@hvd-test-nobody"), in(1000)); });
  CHECK(missing.code == ErrorCode::unavailable);
  CHECK(contains(missing.text, "'@hvd-test-nobody': Connection refused"));
  CHECK(contains(
      caught([] { AgentConnection connection(environment("/no/such/socket"), in(1000)); }).text,
      "'/no/such/socket': No such file"));
  CHECK(contains(
      caught([] { AgentConnection connection(environment(std::string(200, 'x')), in(1000)); }).text,
      "1 to 107 bytes"));
  std::promise<void> over;
  FakeAgent mute([&](FakeAgentPeer&) { over.get_future().wait(); });
  const Caught silent =
      caught([&] { AgentConnection connection(environment(mute.name()), in(100)); });
  CHECK(silent.code == ErrorCode::timeout);
  CHECK(contains(silent.text, "did not answer in time"));
  over.set_value();
}

TEST_CASE("the end of the agent fails every wait and is reported once", "[client]") {
  FakeAgent agent([&](FakeAgentPeer& peer) {
    peer.let_in(kEpoch, one_host(0, 2));
    peer.read_frame();  // a fence and a get, in either order
    peer.read_frame();
    peer.close();
  });
  AgentConnection connection(environment(agent.name()), in(5000));
  std::atomic<int> reports{0};
  connection.set_events({[](const PeerLost&) {}, [&](const hvd::Error&) { ++reports; }});
  auto fence = std::async(std::launch::async,
                          [&] { return caught([&] { connection.fence({}, in(10'000)); }); });
  while (caught([&] { connection.get("key", in(10'000)); }).code != ErrorCode::unavailable) {
  }
  CHECK(contains(fence.get().text, "the line to this host's agent is lost"));
  CHECK(caught([&] { connection.put("k", "v", in(10'000)); }).code == ErrorCode::unavailable);
  connection.leave();
  agent.finish();
  // The I/O thread reports after it has failed the waits.
  for (int i = 0; i < 5000 && reports == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(reports == 1);
}

TEST_CASE("a frame of another epoch ends the line", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.let_in(kEpoch, one_host(0, 2));
    const auto fence = peer.read<FenceEnter>(kEpoch);
    peer.send(FenceRelease{fence.fence, {}}, kEpoch + 1);
    if (!peer.at_end()) throw std::runtime_error("the worker goes on");
  });
  AgentConnection connection(environment(agent.name()), in(5000));
  const Caught error = caught([&] { connection.fence({}, in(5000)); });
  CHECK(error.code == ErrorCode::unavailable);
  CHECK(contains(error.text, "epoch 4, this is epoch 3"));
}

TEST_CASE("a fence fails when it is told so, when a rank dies, and in time", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.let_in(kEpoch, one_host(0, 2));
    const auto failed = peer.read<FenceEnter>(kEpoch);
    peer.send(FenceFailed{failed.fence, "rank 1 exited before it joined"}, kEpoch);
    peer.read<FenceEnter>(kEpoch);
    const auto lost = peer.read<FenceEnter>(kEpoch);
    if (lost.fence != 2) throw std::runtime_error("wrong number");
    peer.send(PeerLost{1, true, {}}, kEpoch);  // it may come back before the fence opens
    peer.send(PeerLost{1, false, "killed by signal 9"}, kEpoch);
    peer.at_end();
  });
  AgentConnection connection(environment(agent.name()), in(5000));
  CHECK(caught([&] { connection.fence({}, in(5000)); }).text == "rank 1 exited before it joined");
  const Caught late = caught([&] { connection.fence({}, in(100)); });
  CHECK(late.code == ErrorCode::timeout);
  CHECK(contains(late.text, "not all of the 2 ranks"));
  const Caught lost = caught([&] { connection.fence({}, in(5000)); });
  CHECK(lost.code == ErrorCode::peer_lost);
  CHECK(lost.text == "rank 1 is lost: killed by signal 9");
}

TEST_CASE("lost peers reach the handler, early ones as soon as it is set", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.let_in(kEpoch, one_host(0, 2));
    peer.send(PeerLost{1, true, "before the fence: dropped"}, kEpoch);
    const auto fence = peer.read<FenceEnter>(kEpoch);
    peer.send(FenceRelease{fence.fence, {}}, kEpoch);
    peer.send(PeerLost{1, false, "early"}, kEpoch);
    const auto put = peer.read<StorePut>(kEpoch);
    peer.send(StoreAck{put.request, Errc::ok}, kEpoch);
    peer.read<WorkerLeave>(kEpoch);
    peer.send(PeerLost{0, true, "late"}, kEpoch);
    peer.close();
  });
  AgentConnection connection(environment(agent.name()), in(5000));
  connection.fence({}, in(5000));
  connection.put("k", "v", in(5000));  // its answer came behind the loss
  std::mutex mutex;
  std::vector<std::string> reasons;
  std::promise<void> over;
  connection.set_events({[&](const PeerLost& lost) {
                           const std::lock_guard<std::mutex> lock(mutex);
                           reasons.push_back(lost.reason);
                         },
                         [&](const hvd::Error&) { over.set_value(); }});
  connection.leave();
  REQUIRE(over.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  const std::lock_guard<std::mutex> lock(mutex);
  CHECK(reasons == std::vector<std::string>{"early", "late"});
}

TEST_CASE("the launcher hears what waits, when told and when it asks", "[client]") {
  std::promise<void> listening;
  FakeAgent agent([&](FakeAgentPeer& peer) {
    WorkerTopology topology = one_host(0, 2);
    topology.stall_warning = 60'000;
    topology.stall_shutdown = 90'000;
    peer.let_in(kEpoch, topology);
    peer.send(StallAsk{1}, kEpoch);
    const auto early = peer.read<WorkerStall>(kEpoch);
    if (early.request != 1 || early.report.submitted != 0)
      throw std::runtime_error("an answer before there is an engine");
    listening.set_value();
    const auto told = peer.read<WorkerStall>(kEpoch);
    if (told.request != 0 || told.report.pending.at(0).name != "grad")
      throw std::runtime_error("not what was told");
    peer.send(StallAsk{2}, kEpoch);
    const auto asked = peer.read<WorkerStall>(kEpoch);
    if (asked.request != 2 || asked.report.submitted != 8)
      throw std::runtime_error("not what was asked");
    // It may be asked while it leaves.
    peer.send(StallAsk{3}, kEpoch);
    peer.close();
  });
  AgentConnection connection(environment(agent.name()), in(5000));
  CHECK(connection.topology().stall_warning == 60'000);
  CHECK(connection.topology().stall_shutdown == 90'000);
  REQUIRE(listening.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  const std::thread::id self = std::this_thread::get_id();
  std::promise<void> lost;
  connection.set_events({[](const PeerLost&) {}, [&](const hvd::Error&) { lost.set_value(); },
                         [&] {
                           StallReport report;
                           report.submitted = std::this_thread::get_id() == self ? 0 : 8;
                           return report;
                         }});
  connection.report_stall({{{"grad", 60'000}}, 1, "grad", 7});
  agent.finish();
  REQUIRE(lost.get_future().wait_for(std::chrono::seconds(5)) == std::future_status::ready);
  connection.report_stall({{{"grad", 61'000}}, 1, "grad", 7});  // nobody hears it
}

TEST_CASE("what exceeds a limit is refused here, before it travels", "[client]") {
  FakeAgent agent([](FakeAgentPeer& peer) {
    peer.let_in(kEpoch, one_host(0, 2));
    if (!peer.at_end()) throw std::runtime_error("something was sent");
  });
  {
    AgentConnection connection(environment(agent.name()), in(5000));
    CHECK(caught([&] { connection.fence(std::string(1U << 20, 'x'), in(1000)); }).code ==
          ErrorCode::invalid_argument);
    CHECK(caught([&] { connection.put(std::string(2000, 'x'), "", in(1000)); }).code ==
          ErrorCode::invalid_argument);
    CHECK(caught([&] { connection.put("k", std::string(9U << 20, 'x'), in(1000)); }).code ==
          ErrorCode::invalid_argument);
  }
  agent.finish();
}
