#include "coordinator/elastic/rank_dealer.h"

#include <algorithm>
#include <map>

namespace hvdrun {

Assignment deal_ranks(const RankTable& table, const std::vector<std::uint32_t>& survivors,
                      std::vector<std::uint32_t> newcomers) {
  std::sort(newcomers.begin(), newcomers.end());
  std::vector<std::uint32_t> order;  // of hosts
  std::map<std::uint32_t, std::vector<std::uint32_t>> on_host;
  const auto add = [&](std::uint32_t slot) {
    const std::uint32_t host = table[slot].host;
    if (on_host[host].empty()) order.push_back(host);
    on_host[host].push_back(slot);
  };
  for (const std::uint32_t slot : survivors) add(slot);
  for (const std::uint32_t slot : newcomers) add(slot);
  // The rule of local and cross ranks has one owner.
  std::vector<HostSlots> hosts;
  hosts.reserve(order.size());
  for (const std::uint32_t host : order)
    hosts.push_back({table.hosts()[host].name, static_cast<std::uint32_t>(on_host[host].size())});
  const auto size = static_cast<std::uint32_t>(survivors.size() + newcomers.size());
  Assignment dealt;
  dealt.places = RankTable(std::move(hosts), size).places();
  for (RankPlace& place : dealt.places) {
    const std::uint32_t host = order[place.host];
    dealt.slots.push_back(on_host[host][place.local_rank]);
    place.host = host;
  }
  return dealt;
}

}  // namespace hvdrun
