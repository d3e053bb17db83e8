// Connecting as ConnectionAttempts and ConnectTimeout say, over real sockets.
#include <chrono>
#include <optional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/openers/ssh/tcp_dialer.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

struct DialerFixture {
  DialerFixture() {
    tcp::acceptor probe(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    free_port = probe.local_endpoint();
  }
  // The outcome, once it is known.
  boost::system::error_code dial(NameResolver::Endpoints endpoints, std::chrono::milliseconds limit,
                                 int attempts) {
    std::optional<boost::system::error_code> result;
    dialer.dial(std::move(endpoints), limit, attempts,
                [&](const boost::system::error_code& ec, const tcp::endpoint& endpoint) {
                  result = ec;
                  last = endpoint;
                });
    CHECK_FALSE(result);
    while (!result && io.run_one_for(30s) > 0) {
    }
    REQUIRE(result);
    return *result;
  }

  asio::io_context io{1};
  tcp::socket socket{io};
  TcpDialer dialer{io, socket};
  tcp::endpoint free_port;  // nobody listens there
  tcp::endpoint last;
};

TEST_CASE_METHOD(DialerFixture, "the first address that answers is taken", "[dialer]") {
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const tcp::endpoint listening = acceptor.local_endpoint();
  CHECK_FALSE(dial({free_port, listening, free_port}, 10s, 1));
  CHECK(last == listening);
  CHECK(socket.remote_endpoint() == listening);
}

TEST_CASE_METHOD(DialerFixture, "as many attempts as the configuration says, and no more",
                 "[dialer]") {
  CHECK(dial({free_port}, 10s, 1) == boost::system::errc::connection_refused);
  CHECK(last == free_port);
  io.restart();
  // It listens once the first attempt has failed; the second comes a second later.
  tcp::acceptor acceptor(io, tcp::v4());
  asio::steady_timer later(io, 100ms);
  later.async_wait([&](const auto&) {
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(free_port);
    acceptor.listen();
  });
  TcpDialer again(io, socket);
  std::optional<boost::system::error_code> result;
  again.dial({free_port}, 10s, 2, [&](const auto& ec, const auto&) { result = ec; });
  io.run_for(30s);
  CHECK(result == boost::system::error_code());
}

TEST_CASE_METHOD(DialerFixture, "an attempt ends when its time is over", "[dialer]") {
  // A listener whose backlog is full lets the kernel drop what comes.
  tcp::acceptor full(io, tcp::v4());
  full.bind(tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  full.listen(0);
  std::vector<tcp::socket> waiting;
  for (int i = 0; i < 8; ++i) {
    waiting.emplace_back(io);
    waiting.back().async_connect(full.local_endpoint(), [](const auto&) {});
  }
  io.poll();
  const auto fault = dial({full.local_endpoint()}, 200ms, 1);
  CHECK(fault == boost::system::errc::timed_out);
  CHECK(may_pass(fault));
  CHECK(may_pass(asio::error::host_unreachable));
  CHECK_FALSE(may_pass(asio::error::access_denied));
  for (tcp::socket& socket_there : waiting) socket_there.close();
}

TEST_CASE_METHOD(DialerFixture, "who stops it is not called any more", "[dialer]") {
  bool called = false;
  dialer.dial({free_port}, 10s, 3, [&](const auto&, const auto&) { called = true; });
  dialer.stop();
  io.run_for(30s);
  CHECK_FALSE(called);
}

}  // namespace
}  // namespace hvdrun
