#include "common/host_addresses.h"

#include <algorithm>
#include <arpa/inet.h>
#include <memory>
#include <netinet/in.h>

#include <ifaddrs.h>
#include <net/if.h>

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

bool is_ip_address(const std::string& text) {
  unsigned char bytes[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

}  // namespace hvdrun
