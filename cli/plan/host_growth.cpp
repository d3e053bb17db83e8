#include "cli/plan/host_growth.h"

#include <algorithm>

namespace hvdrun {

HostGrowth::HostGrowth(const LaunchPlan& plan) : guarded_(plan.spec.hosts().size()) {
  for (std::size_t i = 0; i < plan.entries.size(); ++i)
    numbers_[key_of(plan.entries[i])] = plan.entry_hosts[i];
  for (std::uint32_t host = 0; host < plan.remote.size(); ++host)
    if (!plan.remote[host] && !plan.every_host_local) own_ = host;
  for (const std::uint32_t host : plan.spec.ranks.hosts_used()) guarded_[host] = !plan.remote[host];
}

std::vector<ListedHost> HostGrowth::number(const std::vector<HostEntry>& entries,
                                           LaunchPlan& plan) {
  learn(entries, plan);
  std::vector<ListedHost> listed;
  std::map<std::uint32_t, std::size_t> places;  // of hosts in `listed`
  for (const HostEntry& entry : entries) {
    const std::uint32_t host = numbers_.at(key_of(entry));
    const auto [place, is_first] = places.emplace(host, listed.size());
    if (!is_first) {
      listed[place->second].slots += entry.slots;
      continue;
    }
    listed.push_back({host, plan.spec.hosts()[host].name, entry.slots,
                      host >= guarded_.size() || !guarded_[host]});
  }
  return listed;
}

// Names are looked up once, and all new ones together.
void HostGrowth::learn(const std::vector<HostEntry>& entries, LaunchPlan& plan) {
  std::vector<HostEntry> unknown;
  for (const HostEntry& entry : entries)
    if (!numbers_.contains(key_of(entry))) unknown.push_back(entry);
  if (unknown.empty()) return;
  const std::vector<bool> here = plan.find_this_machine(unknown);
  for (std::size_t i = 0; i < unknown.size(); ++i)
    numbers_[key_of(unknown[i])] = add(unknown[i], here[i], plan);
}

std::uint32_t HostGrowth::add(const HostEntry& entry, bool is_here, LaunchPlan& plan) {
  if (is_here && own_) return *own_;
  const std::uint32_t host = plan.spec.ranks.add_host({entry.name, entry.slots});
  plan.remote.push_back(!is_here && !plan.every_host_local);
  plan.logins.push_back(is_here ? HostLogin{} : entry.login);
  if (plan.remote.back() && plan.complete_login) plan.complete_login(plan.logins.back());
  if (is_here) own_ = host;
  return host;
}

}  // namespace hvdrun
