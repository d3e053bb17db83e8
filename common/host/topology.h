// The rank table: who is which rank, by Horovod's rules. Hosts in the order given, slots filled
// host by host; a cross rank counts the hosts that have this local rank, so it skips hosts that are
// too small. The plan makes a job's table, everybody else looks a rank up in it. Sans-I/O.
#pragma once

#include <cstdint>
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

  // The ranks of a host, in order. They follow each other, but for those of add_slot().
  std::vector<RankPlace> on_host(std::uint32_t host) const;
  std::uint32_t count_on(std::uint32_t host) const {
    return static_cast<std::uint32_t>(by_host_[host].size());
  }
  // Indices of the hosts that have a rank, in order.
  const std::vector<std::uint32_t>& hosts_used() const { return hosts_used_; }
  // A host's index among those, which is torchrun's group rank. The host has a rank.
  std::uint32_t node_rank(std::uint32_t host) const;

  // An elastic job grows. A host more, without ranks yet; returns its index.
  std::uint32_t add_host(HostSlots host);
  // The slots that the host is said to have now; its ranks stay.
  void set_slots(std::uint32_t host, std::uint32_t slots) { hosts_[host].slots = slots; }
  // One more place on the host, behind all others. All that was dealt before stays as it was, so
  // sizes and cross ranks are those of the moment.
  RankPlace add_slot(std::uint32_t host);

 private:
  std::vector<HostSlots> hosts_;
  std::vector<RankPlace> places_;
  std::vector<std::uint32_t> hosts_used_;
  std::vector<std::vector<std::uint32_t>> by_host_;  // the ranks of each
};

}  // namespace hvdrun
