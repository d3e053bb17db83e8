#include "coordinator/host_roster.h"

#include <utility>

namespace hvdrun {

bool HostRoster::ready(std::uint32_t host, const AgentReady& message) {
  if (std::exchange(hosts_[host].stage, Stage::ready) == Stage::ready) return false;
  hosts_[host].info = message;
  ++ready_count_;
  return true;
}

bool HostRoster::lose(std::uint32_t host) { return !std::exchange(hosts_[host].lost, true); }

}  // namespace hvdrun
