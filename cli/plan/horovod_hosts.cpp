#include "cli/plan/horovod_hosts.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>

namespace hvdrun {
namespace {

std::string name_of_its_own(const std::string& name, const HostLogin& login,
                            std::set<std::string>& taken) {
  if (taken.insert(name).second) return name;
  std::string spelled = spell_host(name, login);
  if (taken.insert(spelled).second) return spelled;
  for (std::uint32_t i = 2;; ++i) {
    std::string numbered = spelled;
    numbered.append("-").append(std::to_string(i));
    if (taken.insert(numbered).second) return numbered;
  }
}

}  // namespace

std::vector<HostSlots> horovod_hosts(const std::vector<std::vector<HostSlots>>& names,
                                     const std::vector<HostSlots>& hosts,
                                     const std::vector<HostLogin>& logins) {
  std::vector<HostSlots> seen;
  std::set<std::string> taken;
  for (std::size_t host = 0; host < names.size(); ++host) {
    std::uint32_t left = hosts[host].slots;
    for (const HostSlots& name : names[host]) {
      // --oversubscribe gives a host more than its names have; the last one takes it.
      const bool is_last = &name == &names[host].back();
      const std::uint32_t slots = is_last ? left : std::min(left, name.slots);
      left -= slots;
      seen.push_back({name_of_its_own(name.name, logins[host], taken), slots});
    }
  }
  const bool same = std::equal(seen.begin(), seen.end(), hosts.begin(), hosts.end(),
                               [](const auto& a, const auto& b) { return a.name == b.name; });
  return same ? std::vector<HostSlots>{} : seen;
}

}  // namespace hvdrun
