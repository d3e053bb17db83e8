// The agent's port for Horovod's members, over real sockets, with a coordinator that is written by
// hand.
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/catch.h"
#include "worker/agent/horovod/mirror_server.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct HorovodRelayFixture {
  UniqueFd connect() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(relay.port());
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
    return fd;
  }
  UniqueFd ask(const std::string& method, const std::string& target, const std::string& body = {}) {
    UniqueFd fd = connect();
    const std::string bytes = method + " " + target +
                              " HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) +
                              "\r\n\r\n" + body;
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    return fd;
  }
  // Runs the relay until this is so; a test that waits longer than anything here takes has failed.
  bool run_until(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      io.run_for(1ms);
    }
    return true;
  }
  // Everything until the relay closes: status and value.
  std::string answer(const UniqueFd& fd) {
    std::string all;
    bool closed = false;
    run_until([&] {
      char buffer[4096];
      ssize_t got = 0;
      while ((got = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0)
        all.append(buffer, static_cast<std::size_t>(got));
      closed = got == 0;
      return closed || errno != EAGAIN;
    });
    if (!closed) return "no end";
    return all.substr(9, 3) + all.substr(all.find("\r\n\r\n") + 4);
  }
  template <class M>
  void down(const M& message) {
    CHECK(relay.coordinator_frame(Frame{M::kType, 1, encode(message)}) == Errc::ok);
  }

  boost::asio::io_context io{1};
  std::vector<std::string> up;
  std::string trouble;
  MirrorServer relay{io, 1, [this](std::string frame) { up.push_back(std::move(frame)); },
                     [this](const std::string& what) { trouble += what; }};
};

TEST_CASE_METHOD(HorovodRelayFixture, "members are answered when the coordinator has spoken",
                 "[horovod_relay]") {
  const UniqueFd put = ask("PUT", "/global/0", "zero");
  const UniqueFd first = ask("GET", "/global/0");
  const UniqueFd second = ask("GET", "/global/1");
  REQUIRE(run_until([&] { return up.size() == 2; }));  // the put and one follow
  down(HorovodReply{1, 200, 0, {}});
  CHECK(answer(put) == "200");
  down(HorovodCopy{1, "0", "zero"});
  down(HorovodCaughtUp{1});
  CHECK(answer(first) == "200zero");
  CHECK(answer(second) == "404");  // after a while
  // Not before: on a machine that stands still its own while would be over with the other's.
  const UniqueFd third = ask("GET", "/global/1");
  io.run_for(20ms);
  down(HorovodCopy{1, "1", "one"});
  CHECK(answer(third) == "200one");
  CHECK(answer(ask("GET", "/global/0")) == "200zero");
  CHECK(up.size() == 2);
  CHECK(trouble.empty());
}

TEST_CASE_METHOD(HorovodRelayFixture, "an answer for a member that has gone harms nobody",
                 "[horovod_relay]") {
  UniqueFd gone = ask("PUT", "/s/k", "v");
  REQUIRE(run_until([&] { return up.size() == 1; }));
  gone.reset();
  const UniqueFd waits = ask("GET", "/s/k");
  REQUIRE(run_until([&] { return up.size() == 2; }));
  down(HorovodReply{1, 200, 0, {}});
  down(HorovodCopy{1, "k", "v"});
  down(HorovodCaughtUp{1});
  CHECK(answer(waits) == "200v");
}

TEST_CASE_METHOD(HorovodRelayFixture, "no other machine reaches the port", "[horovod_relay]") {
  // At any other address of the machine nobody listens there.
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(relay.port());
  REQUIRE(::inet_pton(AF_INET, "127.0.0.2", &address.sin_addr) == 1);
  CHECK(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0);
}

}  // namespace
}  // namespace hvdrun
