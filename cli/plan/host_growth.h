// Hosts that join a job which runs: the numbers that they have in its plan. A host that goes and
// comes again keeps its number; all names of this machine are one host.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cli/plan/launch_plan.h"
#include "common/wire/elastic_messages.h"

namespace hvdrun {

class HostGrowth {
 public:
  // The hosts of the plan are those of its entries.
  explicit HostGrowth(const LaunchPlan& plan);

  // The hosts that a source lists now, for the coordinator. The plan gets the hosts that are new.
  std::vector<ListedHost> number(const std::vector<HostEntry>& entries, LaunchPlan& plan);

 private:
  using Key = std::tuple<std::string, std::string, std::uint16_t>;  // name, user, port
  static Key key_of(const HostEntry& entry) {
    return {entry.name, entry.login.user, entry.login.port};
  }
  void learn(const std::vector<HostEntry>& entries, LaunchPlan& plan);
  std::uint32_t add(const HostEntry& entry, bool is_here, LaunchPlan& plan);

  std::map<Key, std::uint32_t> numbers_;
  std::optional<std::uint32_t> own_;  // this machine
  std::vector<bool> guarded_;         // opened on this machine at the start, and not again
};

}  // namespace hvdrun
