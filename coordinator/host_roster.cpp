#include "coordinator/host_roster.h"

#include <utility>

namespace hvdrun {

bool HostRoster::ready(std::uint32_t host, const AgentReady& message) {
  if (std::exchange(hosts_[host].stage, Stage::ready) == Stage::ready) return false;
  hosts_[host].info = message;
  if (hosts_[host].opening > 0) hosts_[host].lost = false;
  ++ready_count_;
  return true;
}

void HostRoster::reopen(std::uint32_t host) {
  if (std::exchange(hosts_[host].stage, Stage::awaited) == Stage::ready) --ready_count_;
  ++hosts_[host].opening;
}

bool HostRoster::lose(std::uint32_t host) { return !std::exchange(hosts_[host].lost, true); }

}  // namespace hvdrun
