#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>

#include "worker/agent/master_port.h"

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
  const UniqueFd held = hold_free_port(port);
  REQUIRE(held);
  REQUIRE(port != 0);
  CHECK(can_listen(port, true));
  CHECK_FALSE(can_listen(port, false));
  std::uint16_t other = 0;
  const UniqueFd second = hold_free_port(other);
  CHECK(other != port);
}

}  // namespace
}  // namespace hvdrun
