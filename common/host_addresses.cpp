#include "common/host_addresses.h"

#include <algorithm>
#include <arpa/inet.h>
#include <memory>
#include <netinet/in.h>

#include <ifaddrs.h>
#include <net/if.h>

namespace hvdrun {

std::vector<std::string> host_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  std::vector<std::string> four;
  std::vector<std::string> six;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0 ||
        (entry->ifa_flags & IFF_LOOPBACK) != 0)
      continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = reinterpret_cast<const sockaddr_in*>(entry->ifa_addr);
      if ((ntohl(address->sin_addr.s_addr) >> 16) == 0xa9fe) continue;  // 169.254/16
      if (::inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr)
        four.emplace_back(text);
    } else if (entry->ifa_addr->sa_family == AF_INET6) {
      const auto* address = reinterpret_cast<const sockaddr_in6*>(entry->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) continue;
      if (::inet_ntop(AF_INET6, &address->sin6_addr, text, sizeof text) != nullptr)
        six.emplace_back(text);
    }
  }
  four.insert(four.end(), six.begin(), six.end());
  return four;
}

}  // namespace hvdrun
