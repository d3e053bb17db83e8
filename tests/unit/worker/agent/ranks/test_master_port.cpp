#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "common/net/open_port.h"
#include "tests/catch.h"
#include "worker/agent/ranks/master_port.h"

namespace hvdrun {
namespace {

bool can_listen(std::uint16_t port, bool reuse) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = reuse ? 1 : 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  return ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(fd.get(), 16) == 0;
}

TEST_CASE("a held port is free for the server it is meant for, and for nobody else", "[port]") {
  std::uint16_t port = 0;
  const UniqueFd held = hold_free_port({}, port);
  REQUIRE(held);
  REQUIRE(port != 0);
  CHECK(can_listen(port, true));
  CHECK_FALSE(can_listen(port, false));
  std::uint16_t other = 0;
  const UniqueFd second = hold_free_port({}, other);
  CHECK(other != port);
}

TEST_CASE("a port of a range is one that nobody holds", "[port]") {
  std::uint16_t any = 0;
  UniqueFd probe = hold_free_port({}, any);
  probe.reset();
  const PortRange range{any, any};
  std::uint16_t port = 0;
  const UniqueFd held = hold_free_port(range, port);
  CHECK(port == any);
  CHECK(can_listen(port, true));
}

TEST_CASE("who may choose takes another port than a held one", "[port]") {
  // Only where there is none it is shared, and somebody may have the next one just now.
  bool took_another = false;
  for (int i = 0; i < 20 && !took_another; ++i) {
    std::uint16_t any = 0;
    const UniqueFd held = hold_free_port({}, any);
    if (any == 0 || any == 65535) continue;
    const auto after = static_cast<std::uint16_t>(any + 1);
    std::error_code ec;
    const UniqueFd server = open_port_everywhere({any, after}, PortUse::listens, ec);
    took_another = server && port_of(server) == after;
  }
  CHECK(took_another);
}

TEST_CASE("a range is two numbers in order", "[port]") {
  PortRange range;
  CHECK(parse_port_range("6000-6100", range));
  CHECK(range.first == 6000);
  CHECK(range.last == 6100);
  for (const char* text : {"", "-", "6000", "6000-", "-6000", "6001-6000", "0-1", "1-65536",
                           "6000-6100x", " 6000-6100", "6000--6100"})
    CHECK_FALSE(parse_port_range(text, range));
}

}  // namespace
}  // namespace hvdrun
