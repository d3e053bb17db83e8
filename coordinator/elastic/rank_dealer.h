// The ranks of an epoch after the first: who gets which. Sans-I/O.
//
// Hosts with a survivor come first, in the order that they had; so rank 0 is a survivor. Then the
// hosts that have only newcomers. On a host survivors keep their order, and newcomers follow. A
// host's ranks are a row in every epoch.
#pragma once

#include <cstdint>
#include <vector>

#include "common/host/topology.h"

namespace hvdrun {

struct Assignment {
  std::vector<std::uint32_t> slots;  // by rank
  std::vector<RankPlace> places;     // by rank; hosts have their numbers in the table of slots
};

// `table` has the slots: a slot's number is its rank there. `survivors` are slots in the order of
// the ranks that they had; `newcomers` in any order.
Assignment deal_ranks(const RankTable& table, const std::vector<std::uint32_t>& survivors,
                      std::vector<std::uint32_t> newcomers);

}  // namespace hvdrun
