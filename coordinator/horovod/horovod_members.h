// The members of an elastic Horovod program. It knows hosts and local ranks, the job knows slots:
// which slot asks, what places an epoch gives it, where it is told of changes. Sans-I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/horovod/worker_addresses.h"
#include "common/wire/job_messages.h"
#include "coordinator/elastic/rank_dealer.h"

namespace hvdrun {

// The name that a member has in the store: HOST:LOCAL_RANK.
std::string horovod_name(const HorovodSlot& member);
// The places of ranks whose hosts have these names, by rank.
std::vector<HorovodSlot> horovod_places(const std::vector<std::string>& hosts);

class HorovodMembers {
 public:
  // `hosts` by slot; all slots are members, each the rank of its number.
  explicit HorovodMembers(std::vector<std::string> hosts);

  void add_slot(std::string host) { hosts_.push_back(std::move(host)); }
  const std::vector<std::string>& hosts() const { return hosts_; }

  // The ranks that `dealt` gives the members, by their names of this epoch.
  std::map<std::string, std::uint32_t, std::less<>> ranks_by_name(const Assignment& dealt) const;
  // The rank that its process has been promised.
  std::optional<std::uint32_t> promise_of(std::uint32_t slot) const;
  // By rank; the slots' numbers are in `dealt`.
  std::vector<HorovodSlot> places(const Assignment& dealt) const;
  // These are the members now; what was promised to them is so.
  void begin_epoch(const Assignment& dealt);
  // The slot's process starts, with this place of an epoch that is to come.
  void promise(std::uint32_t slot, const HorovodSlot& place);
  // Its process is gone.
  void ended(std::uint32_t slot);

  // The member that calls itself HOST:LOCAL_RANK, by its place of this epoch.
  std::optional<std::uint32_t> member(std::string_view name) const;
  // The slots that have been promised this rank of an epoch to come.
  std::vector<std::uint32_t> promised(std::uint32_t rank) const;

  // The words of its process on itself; nullptr: it has said none.
  void set_addresses(std::uint32_t slot, WorkerAddresses addresses) {
    addresses_[slot] = std::move(addresses);
  }
  const WorkerAddresses* addresses(std::uint32_t slot) const;
  // Greater each time.
  std::uint32_t next_notice() { return ++notices_; }

 private:
  std::vector<std::string> hosts_;                             // by slot
  std::map<std::string, std::uint32_t, std::less<>> members_;  // HOST:LOCAL_RANK -> slot
  std::map<std::uint32_t, std::uint32_t> promised_;            // slot -> rank
  std::map<std::uint32_t, WorkerAddresses> addresses_;         // by slot
  std::uint32_t notices_ = 0;
};

}  // namespace hvdrun
