#include "common/net/open_port.h"

#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>

namespace hvdrun {
namespace {

using boost::asio::ip::address;
using boost::asio::ip::tcp;

constexpr int kBacklog = 1 << 16;  // the kernel's own limit holds: net.core.somaxconn

int set_reuse(int fd, int on) { return ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); }

// errno when it fails.
UniqueFd try_port(const tcp::endpoint& endpoint, PortUse use, bool reuse) {
  const int both_families = 0;
  UniqueFd fd(
      ::socket(endpoint.protocol().family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || set_reuse(fd.get(), reuse ? 1 : 0) != 0) return {};
  if (endpoint.address().is_v6() &&
      ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &both_families, sizeof both_families) != 0)
    return {};
  if (::bind(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0 ||
      (use == PortUse::listens && ::listen(fd.get(), kBacklog) != 0) || set_reuse(fd.get(), 1) != 0)
    return {};
  return fd;
}

}  // namespace

UniqueFd open_port(const address& address, PortRange range, PortUse use, std::error_code& ec) {
  ec.clear();
  // Without the option first: with it, a port that another job only holds would do. But it is
  // needed where old connections still stand on a port.
  for (const bool reuse : {false, true}) {
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
      UniqueFd fd = try_port({address, static_cast<std::uint16_t>(port)}, use, reuse);
      if (fd) return fd;
      if (errno != EADDRINUSE && errno != EACCES) {
        ec = {errno, std::system_category()};
        return {};
      }
    }
  }
  ec = {EADDRINUSE, std::system_category()};
  return {};
}

UniqueFd open_port_everywhere(PortRange range, PortUse use, std::error_code& ec) {
  UniqueFd fd = open_port(boost::asio::ip::address_v6::any(), range, use, ec);
  if (fd || ec == std::errc::address_in_use) return fd;
  return open_port(boost::asio::ip::address_v4::any(), range, use, ec);
}

std::uint16_t port_of(const UniqueFd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

}  // namespace hvdrun
