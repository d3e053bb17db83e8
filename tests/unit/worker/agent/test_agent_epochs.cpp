// An agent with a coordinator that is written by hand: messages of an assignment of ranks that is
// not its own.
#include <chrono>
#include <memory>
#include <optional>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/net/unix_stream.h"
#include "tests/catch.h"
#include "worker/agent/agent.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

// The agent has no ranks: what it starts is not what is asked here.
struct AgentFixture {
  AgentFixture() {
    auto [control, coordinator_end] = make_socket_pair();
    auto [output, viewer_end] = make_socket_pair();
    int guard_ends[2];
    REQUIRE(::pipe2(guard_ends, O_CLOEXEC) == 0);
    guard.reset(guard_ends[1]);
    Bootstrap bootstrap;
    bootstrap.job_id = "epochs-" + std::to_string(::getpid());
    bootstrap.host_name = "here";
    bootstrap.control.fd = static_cast<std::uint32_t>(control.release());
    bootstrap.output.fd = static_cast<std::uint32_t>(output.release());
    bootstrap.lease_ms = 15'000;
    agent = std::make_unique<Agent>(io, bootstrap, UniqueFd(guard_ends[0]));
    viewer = greet(std::move(viewer_end));
    coordinator = greet(std::move(coordinator_end));
    // The output's hello first, then the other one; AgentReady follows.
    settle([&] { return is_ready; });
    REQUIRE(is_ready);
  }

  std::shared_ptr<FrameChannel> greet(UniqueFd fd) {
    auto channel = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(fd)));
    channel->start(
        [this, weak = std::weak_ptr(channel)](const Frame& frame) {
          if (frame.type == MessageType::hello) weak.lock()->send(Welcome{});
          is_ready |= frame.type == MessageType::agent_ready;
          if (frame.type == MessageType::rank_probes) ++probes;
        },
        [](std::error_code) {});
    return channel;
  }
  template <class Done>
  void settle(Done&& done) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (!done() && !gave_up() && std::chrono::steady_clock::now() < deadline) io.run_for(5ms);
  }
  bool gave_up() const { return io.stopped(); }
  // Once the agent has answered a question that is sent behind it.
  template <class M>
  void send(const M& message, std::uint32_t epoch) {
    const int before = probes;
    coordinator->send(message, epoch);
    coordinator->send(ProbeRanks{7});
    settle([&] { return probes > before; });
  }
  void launch(std::uint32_t epoch) {
    Launch message;
    message.size = 1;
    message.host_count = 1;
    send(message, epoch);
  }

  // Held by work of the agent's own, so that it stops for give_up() alone.
  boost::asio::io_context io{1};
  UniqueFd guard;
  std::unique_ptr<Agent> agent;
  std::shared_ptr<FrameChannel> viewer;
  std::shared_ptr<FrameChannel> coordinator;
  bool is_ready = false;
  int probes = 0;
};

TEST_CASE_METHOD(AgentFixture, "an agent takes messages of its epoch", "[agent]") {
  launch(3);
  send(PeerLost{1, false, "gone"}, 3);
  send(StoreAck{1, Errc::ok}, 3);
  send(Heartbeat{}, 0);
  CHECK_FALSE(gave_up());
  CHECK(probes == 4);
}

TEST_CASE_METHOD(AgentFixture, "an agent trusts nobody who speaks of another epoch", "[agent]") {
  SECTION("an older one's loss") {
    launch(3);
    send(PeerLost{1, false, "gone"}, 2);
  }
  SECTION("a fence that is not its own") {
    launch(3);
    send(FenceRelease{0, {}}, 4);
  }
  SECTION("signals for ranks that it does not have") {
    launch(3);
    send(SignalRanks{10}, 0);
  }
  SECTION("the end of another") {
    launch(3);
    send(KillRanks{}, 4);
  }
  SECTION("a launch without one") { launch(0); }
  CHECK(gave_up());
}

}  // namespace
}  // namespace hvdrun
