// Who is in the job: hosts, ranks and how far each has come. An assignment of ranks has an epoch;
// every message about ranks names the epoch it means, so that what belongs to an older assignment
// can be told apart. Sans-I/O.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/host/topology.h"

namespace hvdrun {

enum class RankState : std::uint8_t {
  assigned,  // its host has not said that it runs
  started,   // the process runs
  joined,    // it opened its line to the agent (hvd::init)
  left,      // it closed that line
  exited,    // the process is gone, or never came
};
const char* name_of(RankState state);

struct RankRecord {
  RankPlace place;
  RankState state = RankState::assigned;
  std::uint32_t pid = 0;
};

class Membership {
 public:
  explicit Membership(std::vector<HostSlots> hosts) : hosts_(std::move(hosts)) {}

  // Places np ranks and begins a new epoch (the first is 1).
  void assign(std::uint32_t np);

  std::uint32_t epoch() const { return epoch_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  const std::vector<HostSlots>& hosts() const { return hosts_; }
  // Indices of the hosts that have a rank, in order.
  const std::vector<std::uint32_t>& hosts_used() const { return hosts_used_; }
  const std::vector<RankRecord>& ranks() const { return ranks_; }
  std::vector<std::uint32_t> ranks_of(std::uint32_t host) const;

  // True when the rank exists and lives on that host.
  bool owns(std::uint32_t host, std::uint32_t rank) const {
    return rank < ranks_.size() && ranks_[rank].place.host == host;
  }
  void set_state(std::uint32_t rank, RankState state);
  void set_pid(std::uint32_t rank, std::uint32_t pid) { ranks_[rank].pid = pid; }

  // How many are in this state now.
  std::uint32_t count(RankState state) const { return in_state_[static_cast<std::size_t>(state)]; }
  // How many ranks ever came this far (an exited rank counts as started only if it was).
  std::uint32_t started() const { return started_; }
  std::uint32_t joined() const { return joined_; }
  std::uint32_t exited() const { return exited_; }

 private:
  std::vector<HostSlots> hosts_;
  std::vector<std::uint32_t> hosts_used_;
  std::vector<RankRecord> ranks_;
  std::uint32_t epoch_ = 0;
  std::array<std::uint32_t, 5> in_state_{};  // by RankState
  std::uint32_t started_ = 0;
  std::uint32_t joined_ = 0;
  std::uint32_t exited_ = 0;
};

}  // namespace hvdrun
