// More connections than there is room for: who comes waits, and is served in the end.
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "common/base/limits.h"
#include "common/net/tls_listener.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

struct ListenerFixture {
  ListenerFixture() {
    tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    endpoint = acceptor.local_endpoint();
    listener.emplace(
        io, UniqueFd(acceptor.release()), key,
        [this](std::unique_ptr<ByteStream> stream) { peers.push_back(std::move(stream)); },
        [this](const std::string& what) { troubles.push_back(what); });
  }
  void connect() {
    async_tls_connect(io, make_tls_context(key), {endpoint_text(endpoint)}, 20s,
                      [this](std::error_code ec, std::unique_ptr<ByteStream> stream) {
                        result = ec;
                        client = std::move(stream);
                      });
  }
  // The number of callbacks that ran meanwhile.
  std::size_t run(std::chrono::milliseconds time) {
    io.restart();
    return io.run_for(time);
  }
  void run_until_connected() {
    for (int i = 0; i < 500 && !(result && !peers.empty()); ++i) run(10ms);
  }

  const PskKey key{"job", std::string(32, 'k')};
  asio::io_context io{1};
  tcp::endpoint endpoint;
  std::optional<TlsListener> listener;
  std::vector<std::unique_ptr<ByteStream>> peers;
  std::vector<std::string> troubles;
  std::optional<std::error_code> result;
  std::unique_ptr<ByteStream> client;
};

TEST_CASE_METHOD(ListenerFixture, "out of descriptors: which limit is said once, then it goes on",
                 "[tls]") {
  connect();
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  std::vector<UniqueFd> taken;
  int highest = -1;
  while (highest < 63) {
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    highest = fd;
    taken.emplace_back(fd);
  }
  rlimit low = before;
  low.rlim_cur = static_cast<rlim_t>(highest) + 1;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &low) == 0);
  const std::size_t callbacks = run(450ms);
  ::setrlimit(RLIMIT_NOFILE, &before);
  REQUIRE(troubles.size() == 1);
  CHECK_THAT(troubles[0], Catch::StartsWith("cannot accept a connection: all descriptors of this "
                                            "process are in use, and each host takes one; the "
                                            "limit is " +
                                            std::to_string(low.rlim_cur)));
  CHECK_THAT(troubles[0], Catch::Contains("ulimit -") && Catch::EndsWith("; trying again"));
  CHECK(callbacks < 20);
  CHECK(peers.empty());
  taken.clear();
  run_until_connected();
  CHECK(result == std::error_code());
  CHECK(peers.size() == 1);
  CHECK(troubles.size() == 1);
}

TEST_CASE_METHOD(ListenerFixture, "strangers from one address are told once and then counted",
                 "[tls]") {
  for (int i = 0; i < 18; ++i) {
    tcp::socket stranger(io);
    stranger.connect(endpoint);
    stranger.write_some(asio::buffer("GET / HTTP/1.0\r\n\r\n", 18));
    run(1ms);
  }
  for (int i = 0; i < 1000 && troubles.size() < 2; ++i) run(10ms);
  REQUIRE(troubles.size() == 2);
  CHECK(troubles[0].starts_with("refused a connection from 127.0.0.1: "));
  CHECK(troubles[1] == "17 more connections from 127.0.0.1 that did not belong to the job");
  CHECK(peers.empty());
}

// A host of the job that has several ways to this one hangs up on all but the first to answer.
TEST_CASE_METHOD(ListenerFixture, "who hangs up is nobody to tell of", "[tls]") {
  for (int i = 0; i < 5; ++i) {
    tcp::socket peer(io);
    peer.connect(endpoint);
    if (i % 2 == 0) peer.set_option(asio::socket_base::linger(true, 0));  // a reset
    peer.close();
    run(5ms);
  }
  connect();
  run_until_connected();
  CHECK(peers.size() == 1);
  CHECK(troubles.empty());
}

TEST_CASE_METHOD(ListenerFixture, "beyond so many handshakes at once the others wait", "[tls]") {
  std::vector<tcp::socket> silent;
  for (std::size_t i = 0; i < limits::kMaxPendingHandshakes; ++i) {
    silent.emplace_back(io);
    silent.back().connect(endpoint);
    run(0ms);
  }
  connect();
  run(200ms);
  CHECK_FALSE(result);
  silent.pop_back();
  run_until_connected();
  CHECK(result == std::error_code());
  CHECK(peers.size() == 1);
}

}  // namespace
}  // namespace hvdrun
