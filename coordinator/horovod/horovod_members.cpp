#include "coordinator/horovod/horovod_members.h"

#include <numeric>
#include <utility>

#include "common/host/topology.h"

namespace hvdrun {

std::string horovod_name(const HorovodSlot& member) {
  return member.host + ":" + std::to_string(member.place.local_rank);
}

std::vector<HorovodSlot> horovod_places(const std::vector<std::string>& hosts) {
  std::vector<HostSlots> groups;                               // in the order of their first ranks
  std::vector<std::pair<std::uint32_t, std::uint32_t>> where;  // group and local rank, by rank
  std::map<std::string_view, std::uint32_t> numbers;
  for (const std::string& host : hosts) {
    const auto number = static_cast<std::uint32_t>(groups.size());
    const auto [found, is_new] = numbers.try_emplace(host, number);
    if (is_new) groups.push_back({host, 0});
    where.emplace_back(found->second, groups[found->second].slots++);
  }
  // The table has the rule of local and cross ranks, for hosts whose ranks are a row.
  const RankTable table(std::move(groups), static_cast<std::uint32_t>(hosts.size()));
  std::vector<std::vector<RankPlace>> on_hosts;
  for (std::uint32_t host = 0; host < table.hosts().size(); ++host)
    on_hosts.push_back(table.on_host(host));
  std::vector<HorovodSlot> places;
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    RankPlace place = on_hosts[where[rank].first][where[rank].second];
    place.rank = rank;
    places.push_back({hosts[rank], place});
  }
  return places;
}

HorovodMembers::HorovodMembers(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {
  Assignment all;
  all.slots.resize(hosts_.size());
  std::iota(all.slots.begin(), all.slots.end(), 0);
  begin_epoch(all);
}

std::vector<HorovodSlot> HorovodMembers::places(const Assignment& dealt) const {
  std::vector<std::string> hosts;
  hosts.reserve(dealt.slots.size());
  for (const std::uint32_t slot : dealt.slots) hosts.push_back(hosts_[slot]);
  return horovod_places(hosts);
}

std::map<std::string, std::uint32_t, std::less<>> HorovodMembers::ranks_by_name(
    const Assignment& dealt) const {
  std::map<std::uint32_t, std::uint32_t> ranks;  // by slot
  for (std::uint32_t rank = 0; rank < dealt.slots.size(); ++rank) ranks[dealt.slots[rank]] = rank;
  std::map<std::string, std::uint32_t, std::less<>> found;
  for (const auto& [name, slot] : members_)
    if (const auto rank = ranks.find(slot); rank != ranks.end()) found[name] = rank->second;
  return found;
}

std::optional<std::uint32_t> HorovodMembers::promise_of(std::uint32_t slot) const {
  const auto found = promised_.find(slot);
  if (found == promised_.end()) return std::nullopt;
  return found->second;
}

void HorovodMembers::begin_epoch(const Assignment& dealt) {
  members_.clear();
  const std::vector<HorovodSlot> all = places(dealt);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    members_[horovod_name(all[rank])] = dealt.slots[rank];
    promised_.erase(dealt.slots[rank]);
  }
}

void HorovodMembers::promise(std::uint32_t slot, const HorovodSlot& place) {
  promised_[slot] = place.place.rank;
}

void HorovodMembers::ended(std::uint32_t slot) {
  promised_.erase(slot);
  addresses_.erase(slot);
}

std::optional<std::uint32_t> HorovodMembers::member(std::string_view name) const {
  const auto found = members_.find(name);
  if (found == members_.end()) return std::nullopt;
  return found->second;
}

std::vector<std::uint32_t> HorovodMembers::promised(std::uint32_t rank) const {
  std::vector<std::uint32_t> slots;
  for (const auto& [slot, promised] : promised_)
    if (promised == rank) slots.push_back(slot);
  return slots;
}

const WorkerAddresses* HorovodMembers::addresses(std::uint32_t slot) const {
  const auto found = addresses_.find(slot);
  return found != addresses_.end() ? &found->second : nullptr;
}

}  // namespace hvdrun
