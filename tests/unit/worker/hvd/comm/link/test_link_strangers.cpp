// Strangers who answer where a rank of another host was looked for and do not hold the job's key:
// nothing of the job is sent to them, encrypted or not.
#include <chrono>
#include <map>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/catch.h"
#include "tests/openssl_server.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "worker/hvd/comm/link/link_set.h"
#include "worker/hvd/comm/link/link_tls.h"
#include "worker/hvd/comm/link/socket_address.h"

using namespace hvdrun;
using namespace hvdrun::test;
using std::chrono::milliseconds;
using Handshake = LinkTls::Channel::Progress;

namespace {

const std::string kDataKey(32, 'k');
constexpr int kPatience = 10'000;

UniqueFd connected_to(const std::string& address) {
  const SocketAddress target = SocketAddress::parse(address);
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&target.address),
                    target.bytes) == 0);
  return socket;
}

// Until the handshake has ended, one way or the other.
Handshake finish_handshake(LinkTls::Channel& channel) {
  while (true) {
    const Handshake progress = channel.handshake();
    if (progress == Handshake::done || progress == Handshake::failed) return progress;
    pollfd polled{channel.fd(),
                  static_cast<short>(progress == Handshake::wants_input ? POLLIN : POLLOUT), 0};
    if (::poll(&polled, 1, kPatience) != 1) return progress;
  }
}

}  // namespace

TEST_CASE("a server without the job's key hears no data of a rank", "[links][tls]") {
  const auto stranger = GENERATE(from_range(OpensslServer::strangers("hvdrun data")));
  CAPTURE(stranger.what);
  OpensslServer server(stranger.options);
  const LinkTls tls(kDataKey);
  const auto channel = tls.over(connected_to(server.address()), false);
  const Handshake progress = finish_handshake(*channel);
  CHECK(progress == Handshake::failed);
  CHECK(channel->problem().find("the other end does not hold this job's key") == 0);
  if (progress == Handshake::done) {
    std::string gradients = "gradients";
    const iovec part{gradients.data(), gradients.size()};
    channel->send(&part, 1);
  }
  CHECK(server.wait_for({"ERROR", "gradients"}));
  CAPTURE(server.heard());
  CHECK((server.heard() == "ClientHello" || server.heard() == "ClientHello Alert"));
}

TEST_CASE("a rank's hello offers the key with a fresh exchange, and nothing else", "[links][tls]") {
  int ends[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const UniqueFd far(ends[1]);
  const LinkTls tls(kDataKey);
  const auto channel = tls.over(UniqueFd(ends[0]), false);
  CHECK(channel->handshake() == Handshake::wants_input);
  std::string record(4096, '\0');
  const ssize_t size = ::recv(far.get(), record.data(), record.size(), MSG_DONTWAIT);
  REQUIRE(size > 0);
  record.resize(static_cast<std::size_t>(size));
  auto extensions = extensions_of_hello(record);
  CHECK(extensions[0x2b] == std::string("\2\3\4", 3));            // TLS 1.3
  CHECK(extensions[0x0a] == std::string("\0\4\0\x1d\0\x17", 6));  // X25519, P-256
  CHECK(extensions[0x2d] == std::string("\1\1", 2));  // the key and an exchange, not the key alone
  CHECK(extensions[0x29].find("hvdrun data") != std::string::npos);
}

TEST_CASE("who answers in a rank's place is named, and hears a hello alone", "[links]") {
  const bool encrypt = GENERATE(false, true);
  CAPTURE(encrypt);
  auto set =
      std::make_unique<LinkSet>(LinkSet::Options{{1, 0, 0}, kDataKey, "127.0.0.1", {}, encrypt});
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  SocketAddress here = SocketAddress::of("127.0.0.1", 0);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&here.address), here.bytes) ==
          0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  here.bytes = sizeof here.address;
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&here.address), &here.bytes) ==
          0);
  std::string heard;
  std::thread stranger([&] {
    const UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const std::string challenge(48, 'c');  // as long as a rank's
    static_cast<void>(::send(socket.get(), challenge.data(), challenge.size(), MSG_NOSIGNAL));
    char bytes[1024];
    for (ssize_t got = 0; (got = ::recv(socket.get(), bytes, sizeof bytes, 0)) > 0;)
      heard.append(bytes, static_cast<std::size_t>(got));
  });
  set->set_peers(HostLayout({1, 1}), {set->endpoint(), here.text()});
  set->begin(0, {.timeout = milliseconds(kPatience)});
  const auto error = error_of([&] { set->connect({1}); });
  set.reset();  // and the connection with it
  stranger.join();
  REQUIRE(error.has_value());
  CHECK(error->text == "no connection to rank 1 at " + here.text() +
                           ": what answers there is no rank of this job (ranks on different hosts "
                           "must reach each other's ports)");
  CHECK(heard.size() == 40);  // its hello
  CHECK(heard.find(kDataKey) == std::string::npos);
}
