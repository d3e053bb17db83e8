// Where a rank can be reached by the ranks of other hosts, as it stands in the job's store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace hvdrun {

struct SocketAddress {
  sockaddr_storage address{};
  socklen_t bytes = 0;

  // "10.1.2.3", "fe80::1%eth0"; port 0 is any. Throws hvd::Error(unavailable) for anything else.
  static SocketAddress of(const std::string& address, std::uint16_t port = 0);
  // As text() writes it.
  static SocketAddress parse(std::string_view text);

  std::uint16_t port() const;
  // "10.1.2.3:4711", "[fd00::1]:4711"
  std::string text() const;
};

}  // namespace hvdrun
