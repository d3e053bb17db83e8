// The coordinator's server over real sockets: who is let in and who is not.
#include <algorithm>
#include <optional>
#include <unistd.h>

#include <boost/asio/ip/tcp.hpp>

#include "common/base/error.h"
#include "common/net/clock_offset.h"
#include "common/net/unix_stream.h"
#include "coordinator/server.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

// One peer's side of a connection: what it was told.
struct Peer {
  void open(std::unique_ptr<ByteStream> stream, const Hello& hello) {
    channel = std::make_shared<FrameChannel>(std::move(stream));
    channel->start([this](Frame frame) { frames.push_back(std::move(frame)); },
                   [this](std::error_code ec) { closed = ec; });
    channel->send(hello);
  }
  bool was_refused(Errc code) const {
    Refuse refuse;
    return !frames.empty() && frames.front().type == MessageType::refuse &&
           !decode(frames.front().payload, refuse) && refuse.code == code;
  }
  bool was_welcomed() const {
    return !frames.empty() && frames.front().type == MessageType::welcome;
  }
  std::shared_ptr<FrameChannel> channel;
  std::vector<Frame> frames;
  std::optional<std::error_code> closed;
};

struct ServerFixture {
  ServerFixture() {
    ServerOptions options;
    options.spec.job_id = "job";
    options.spec.ranks = {{{"a", 1}, {"b", 1}}, 2};
    options.spec.start_timeout = 30s;
    options.spec.lease = 15s;
    auto [driver_end, server_driver] = make_socket_pair();
    auto [agent_end, server_agent] = make_socket_pair();
    driver_fd = std::move(driver_end);
    agent_fd = std::move(agent_end);
    options.driver = std::move(server_driver);
    options.agents.push_back(std::move(server_agent));
    tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    address = endpoint_text(acceptor.local_endpoint());
    options.listener.reset(acceptor.release());
    options.secret = std::string(32, 'k');
    server.emplace(io, std::move(options));
  }
  static Hello hello(Role role, std::uint32_t host = 0) {
    Hello message;
    message.role = role;
    message.host_index = host;
    message.job_id = "job";
    return message;
  }
  void connect_tls(Peer& peer, const Hello& message, char key = 'k') {
    async_tls_connect(io, make_tls_context({"job", std::string(32, key)}), {address}, 2s,
                      [this, &peer, message](std::error_code ec, std::unique_ptr<ByteStream> s) {
                        tls_result = ec;
                        if (!ec) peer.open(std::move(s), message);
                      });
  }
  void settle(std::chrono::milliseconds time = 100ms) { io.run_for(time); }

  asio::io_context io{1};
  UniqueFd driver_fd;
  UniqueFd agent_fd;
  std::string address;
  std::optional<std::error_code> tls_result;
  Peer peers[3];
  std::optional<Server> server;
};

TEST_CASE_METHOD(ServerFixture, "agents come over Unix sockets and over TLS, each host once",
                 "[server]") {
  peers[0].open(make_unix_stream(io, std::move(agent_fd)), hello(Role::agent, 0));
  connect_tls(peers[1], hello(Role::agent, 1));
  settle();
  CHECK(peers[0].was_welcomed());
  CHECK(peers[1].was_welcomed());
  connect_tls(peers[2], hello(Role::agent, 1));
  settle();
  CHECK(peers[2].was_refused(Errc::unexpected_message));
  CHECK(peers[2].closed == Errc::closed);
}

TEST_CASE_METHOD(ServerFixture, "a wrong key gets no frame at all", "[server]") {
  connect_tls(peers[0], hello(Role::agent, 1), 'x');
  settle(300ms);
  REQUIRE(tls_result);
  CHECK(*tls_result);
  CHECK(peers[0].frames.empty());
}

TEST_CASE_METHOD(ServerFixture, "hellos that do not fit are refused with the reason", "[server]") {
  Hello message = hello(Role::agent, 1);
  Errc code = Errc::ok;
  SECTION("another protocol") {
    message.magic = 1;
    code = Errc::bad_magic;
  }
  SECTION("a version of the future") {
    message.version_min = message.version_max = 99;
    code = Errc::version_mismatch;
  }
  SECTION("another job") {
    message.job_id = "other";
    code = Errc::wrong_job;
  }
  SECTION("a host that is not in the job") {
    message.host_index = 7;
    code = Errc::unexpected_message;
  }
  SECTION("a driver from outside") {
    message.role = Role::driver;
    code = Errc::unexpected_message;
  }
  SECTION("a worker") {
    message.role = Role::worker;
    code = Errc::unexpected_message;
  }
  connect_tls(peers[0], message);
  settle();
  CHECK(peers[0].was_refused(code));
  CHECK(peers[0].closed == Errc::closed);
}

TEST_CASE_METHOD(ServerFixture, "a driver that does not read for a while does not end the job",
                 "[server]") {
  const std::string driver_hello = encode_frame(hello(Role::driver));
  REQUIRE(::write(driver_fd.get(), driver_hello.data(), driver_hello.size()) > 0);
  peers[0].open(make_unix_stream(io, std::move(agent_fd)), hello(Role::agent, 0));
  settle();
  // More than a connection may hold, as lines that an agent says.
  constexpr std::size_t kLines = 90;
  for (std::size_t line = 0; line < kLines; ++line) {
    peers[0].channel->send(Log{LogLevel::info, std::string(1U << 20, 'x')}, 1);
    while (peers[0].channel->queued() > 0) io.run_one_for(1s);
  }
  settle();
  CHECK_FALSE(peers[0].closed);

  Peer driver;
  driver.channel = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(driver_fd)));
  driver.channel->start([&](Frame frame) { driver.frames.push_back(std::move(frame)); },
                        [&](std::error_code ec) { driver.closed = ec; });
  // The driver's last line, where it is a short one: a failed check would print all of it.
  const auto last_line = [&driver] {
    Log last;
    if (driver.frames.empty() || driver.frames.back().payload.size() > 1000 ||
        driver.frames.back().type != MessageType::log || decode(driver.frames.back().payload, last))
      return std::string();
    return last.text;
  };
  // All of it is in this process: what stands still for so long has arrived.
  const auto read_all = [&] {
    for (std::size_t before = kLines; before != driver.frames.size(); io.run_for(500ms))
      before = driver.frames.size();
  };
  read_all();
  peers[0].channel->send(Log{LogLevel::info, "afterwards"}, 1);
  read_all();
  CHECK_FALSE(driver.closed);
  REQUIRE(driver.frames.size() > 10);
  CHECK(driver.frames.size() < kLines);
  CHECK(last_line() == "afterwards");
  driver.frames.pop_back();
  // The welcome and this line are no lines of before.
  CHECK(last_line() ==
        std::to_string(kLines - (driver.frames.size() - 2)) +
            " messages about the job (lines, events of ranks, warnings) are left out: hvdrun did "
            "not read for a while");
}

TEST_CASE_METHOD(ServerFixture, "an agent that speaks nonsense is lost, and the job with it",
                 "[server]") {
  peers[2].open(make_unix_stream(io, std::move(driver_fd)), hello(Role::driver));
  peers[0].open(make_unix_stream(io, std::move(agent_fd)), hello(Role::agent, 0));
  settle();
  peers[0].channel->send(EndJob{});
  settle();
  CHECK(peers[0].closed == Errc::closed);
  JobEnded verdict;
  REQUIRE(peers[2].frames.size() >= 2);
  REQUIRE(peers[2].frames.back().type == MessageType::job_ended);
  REQUIRE_FALSE(decode(peers[2].frames.back().payload, verdict));
  CHECK(verdict.cause == EndCause::host_lost);
  CHECK(verdict.host == "a");
}

TEST_CASE_METHOD(ServerFixture, "only agents elsewhere are sent heartbeats", "[server]") {
  peers[0].open(make_unix_stream(io, std::move(agent_fd)), hello(Role::agent, 0));
  connect_tls(peers[1], hello(Role::agent, 1));
  settle(1500ms);
  const auto heartbeats = [](const Peer& peer) {
    return std::count_if(peer.frames.begin(), peer.frames.end(),
                         [](const Frame& f) { return f.type == MessageType::heartbeat; });
  };
  CHECK(heartbeats(peers[0]) == 0);
  CHECK(heartbeats(peers[1]) == 1);
}

TEST_CASE_METHOD(ServerFixture, "an agent is told the time, before it is ready too", "[server]") {
  peers[0].open(make_unix_stream(io, std::move(agent_fd)), hello(Role::agent));
  settle(20ms);
  const std::uint64_t before = monotonic_ns();
  peers[0].channel->send(ClockQuery{4711});
  settle(20ms);
  REQUIRE(peers[0].frames.size() == 2);
  ClockReply reply;
  REQUIRE(peers[0].frames[1].type == MessageType::clock_reply);
  REQUIRE_FALSE(decode(peers[0].frames[1].payload, reply));
  CHECK(reply.sent_ns == 4711);
  CHECK(reply.now_ns >= before);
  CHECK(reply.now_ns <= monotonic_ns());
  CHECK(reply.clock == own_clock());
  CHECK_FALSE(peers[0].closed);
}

}  // namespace
}  // namespace hvdrun
