#include "common/net/host_addresses.h"

#include <algorithm>
#include <arpa/inet.h>
#include <memory>
#include <netinet/in.h>
#include <sys/socket.h>

#include <ifaddrs.h>
#include <net/if.h>

#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

// "eth0:1" is a second address of eth0, by an old custom.
std::string interface_name(const char* label) {
  const std::string name = label;
  return name.substr(0, name.find(':'));
}

struct Found {
  HostAddress address;
  bool four = false;
  bool usable_elsewhere = false;
};

std::vector<Found> all_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<Found> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const bool loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      const bool link_local = (ntohl(address->sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254/16
      if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr)
        all.push_back({{interface_name(entry->ifa_name), text}, true, !loopback && !link_local});
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      const bool link_local = IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr);
      if (::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text) != nullptr)
        all.push_back({{interface_name(entry->ifa_name), text}, false, !loopback && !link_local});
    }
  }
  return all;
}

}  // namespace

std::vector<HostAddress> host_addresses() {
  std::vector<Found> all = all_addresses();
  std::stable_partition(all.begin(), all.end(), [](const Found& found) { return found.four; });
  std::vector<HostAddress> usable;
  for (Found& found : all)
    if (found.usable_elsewhere) usable.push_back(std::move(found.address));
  return usable;
}

std::string interface_of(const std::string& address) {
  for (Found& found : all_addresses())
    if (found.address.address == address) return std::move(found.address.interface);
  return {};
}

// A connected datagram socket sends nothing, but has the address that the route chose.
std::string address_towards(const std::string& address) {
  sockaddr_in four{};
  sockaddr_in6 six{};
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(9);
  const bool is_four = ::inet_pton(AF_INET, address.c_str(), &four.sin_addr) == 1;
  if (!is_four && ::inet_pton(AF_INET6, address.c_str(), &six.sin6_addr) != 1) return {};
  auto* const any =
      is_four ? reinterpret_cast<sockaddr*>(&four) : reinterpret_cast<sockaddr*>(&six);
  socklen_t size = is_four ? sizeof four : sizeof six;
  const UniqueFd fd(::socket(any->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  char text[INET6_ADDRSTRLEN] = {};
  if (!fd || ::connect(fd.get(), any, size) != 0 || ::getsockname(fd.get(), any, &size) != 0 ||
      ::inet_ntop(any->sa_family,
                  is_four ? static_cast<void*>(&four.sin_addr) : static_cast<void*>(&six.sin6_addr),
                  text, sizeof text) == nullptr)
    return {};
  return text;
}

bool is_ip_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

}  // namespace hvdrun
