#include "worker/hvd/comm/link/socket_address.h"

#include <charconv>
#include <cstring>

#include <hvd/hvd.h>
#include <netdb.h>

namespace hvdrun {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   "'" + std::string(text.substr(0, 100)) + "' is no numeric address");
}

}  // namespace

SocketAddress SocketAddress::of(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    refuse(address);
  SocketAddress endpoint;
  endpoint.bytes = found->ai_addrlen;
  std::memcpy(&endpoint.address, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return endpoint;
}

SocketAddress SocketAddress::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) refuse(text);
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) refuse(text);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return of(std::string(host), port);
}

std::uint16_t SocketAddress::port() const {
  const auto* const raw = reinterpret_cast<const char*>(&address);
  in_port_t port = 0;
  const std::size_t at = address.ss_family == AF_INET6 ? offsetof(sockaddr_in6, sin6_port)
                                                       : offsetof(sockaddr_in, sin_port);
  std::memcpy(&port, raw + at, sizeof port);
  return ntohs(port);
}

std::string SocketAddress::text() const {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host, sizeof host, nullptr, 0,
                NI_NUMERICHOST);
  const std::string name = address.ss_family == AF_INET6 ? "[" + std::string(host) + "]" : host;
  return name + ":" + std::to_string(port());
}

}  // namespace hvdrun
