// The rank table: who is which rank, by Horovod's rules. Hosts in the order given, slots filled
// host by host; a cross rank counts the hosts that have this local rank, so it skips hosts that are
// too small. The plan makes a job's table, everybody else looks a rank up in it. Sans-I/O.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/host/rank_place.h"

namespace hvdrun {

struct HostSlots {
  std::string name;
  std::uint32_t slots = 0;
};

class RankTable {
 public:
  RankTable() = default;
  // The ranks 0 .. np-1; fewer when the hosts have fewer slots.
  RankTable(std::vector<HostSlots> hosts, std::uint32_t np);

  std::uint32_t size() const { return static_cast<std::uint32_t>(places_.size()); }
  // As given, with those that get no rank.
  const std::vector<HostSlots>& hosts() const { return hosts_; }
  const std::vector<RankPlace>& places() const { return places_; }  // by rank
  const RankPlace& operator[](std::uint32_t rank) const { return places_[rank]; }
  const std::string& host_name(std::uint32_t rank) const { return hosts_[places_[rank].host].name; }

  // The ranks of a host, in order: they follow each other.
  std::span<const RankPlace> on_host(std::uint32_t host) const;
  // Indices of the hosts that have a rank, in order.
  const std::vector<std::uint32_t>& hosts_used() const { return hosts_used_; }
  // A host's index among those, which is torchrun's group rank. The host has a rank.
  std::uint32_t node_rank(std::uint32_t host) const;

 private:
  std::vector<HostSlots> hosts_;
  std::vector<RankPlace> places_;
  std::vector<std::uint32_t> hosts_used_;
  std::vector<std::uint32_t> first_ranks_;  // of each host and the one after the last
};

}  // namespace hvdrun
