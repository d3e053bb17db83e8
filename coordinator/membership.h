// The members of the job: hosts, ranks and how far each has come. An assignment of ranks has an
// epoch; every message about ranks names the epoch it means, so that what belongs to an older
// assignment can be told apart. Sans-I/O.
//
// Records stand by slot, which is the rank of the first epoch. Only an elastic job has others: then
// order() has the slots that take part, by the rank of the moment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/host/topology.h"
#include "coordinator/elastic/rank_dealer.h"

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
  // Begins a new epoch (the first is 1), in which the ranks are where `table` says.
  void assign(RankTable table);
  // Begins a new epoch of the same slots; how far each has come stays.
  void assign(Assignment dealt);
  // Hosts and slots that are new in this epoch, as RankTable's; a slot has no process yet.
  void add_host(HostSlots host) { table_.add_host(std::move(host)); }
  void add_slot(std::uint32_t host);
  // The slot's process is to be started again.
  void restart(std::uint32_t slot);

  std::uint32_t epoch() const { return epoch_; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  const RankTable& table() const { return table_; }
  const std::vector<HostSlots>& hosts() const { return table_.hosts(); }
  const std::vector<std::uint32_t>& hosts_used() const { return table_.hosts_used(); }
  const std::vector<RankRecord>& ranks() const { return ranks_; }
  // The slots of this epoch by rank, and the rank of a slot if it takes part.
  const std::vector<std::uint32_t>& order() const { return dealt_.slots; }
  const Assignment& dealt() const { return dealt_; }
  std::optional<std::uint32_t> rank_of(std::uint32_t slot) const;
  // The members by the rank of the moment, for who speaks of ranks as libhvd does.
  Membership in_ranks() const;

  // True when the rank exists and lives on that host.
  bool owns(std::uint32_t host, std::uint32_t rank) const {
    return rank < ranks_.size() && ranks_[rank].place.host == host;
  }
  void set_state(std::uint32_t rank, RankState state);
  void set_pid(std::uint32_t rank, std::uint32_t pid) { ranks_[rank].pid = pid; }

  // The number of ranks in this state now.
  std::uint32_t count(RankState state) const { return in_state_[static_cast<std::size_t>(state)]; }
  // The number of ranks that ever came this far (an exited rank counts as started only if it was).
  std::uint32_t started() const { return started_; }
  std::uint32_t joined() const { return joined_; }
  std::uint32_t exited() const { return exited_; }

 private:
  RankTable table_;
  Assignment dealt_;
  std::vector<RankRecord> ranks_;
  std::uint32_t epoch_ = 0;
  std::array<std::uint32_t, 5> in_state_{};  // by RankState
  std::uint32_t started_ = 0;
  std::uint32_t joined_ = 0;
  std::uint32_t exited_ = 0;
};

}  // namespace hvdrun
