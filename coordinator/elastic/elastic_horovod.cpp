// Elastic programs of Horovod. A process of theirs learns its rank from its environment, and only
// later ones by asking. So a newcomer is started for one certain epoch, which has to come true:
// else it is ended at its door and started for another. It is worth that: the others go on until
// the newcomer has loaded its program, where horovodrun has them wait for it.
//
// A loss leaves out the whole host, as with horovodrun: these programs bind a process to a GPU by
// its local rank, which must not change as long as it lives.
#include <algorithm>
#include <set>

#include "coordinator/elastic/elastic_job.h"

namespace hvdrun {

void ElasticJob::follow_horovod(std::vector<std::string> hosts) {
  horovod_ = HorovodRule{std::move(hosts), {}};
}

Assignment ElasticJob::deal_with(const std::vector<std::uint32_t>& newcomers) const {
  return deal_ranks(table_, staying(newcomers.size()), newcomers);
}

void ElasticJob::start_as_promised(const std::vector<std::uint32_t>& slots, TimePoint now) {
  std::optional<TimePoint>& start_at = horovod_->start_at;
  if (slots.empty()) return start_at.reset();
  // Hosts that are opened together come in together.
  const bool more_come = count(SlotState::away) > 0;
  if (!start_at) start_at = now + kTogether;
  if (more_come && now < *start_at) return;
  start_at.reset();
  // Those whose own epoch may still come come before these.
  std::vector<std::uint32_t> newcomers = slots;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const SlotRecord& record = slots_[slot];
    if ((record.state == SlotState::at_door || record.state == SlotState::starting) &&
        record.promised && may_still_fit(*record.promised))
      newcomers.push_back(slot);
  }
  const auto promised = std::make_shared<const Assignment>(deal_with(newcomers));
  // An epoch of too few, or of more than there is room for, will not come.
  if (!can_begin(promised->slots.size(), newcomers)) {
    start_at = now + kTogether;
    return;
  }
  for (const std::uint32_t slot : slots) {
    slots_[slot].promised = promised;
    start_slot(slot, now);
  }
}

bool ElasticJob::can_begin(std::size_t ranks, const std::vector<std::uint32_t>& newcomers) const {
  return ranks >= needed() && with_room(newcomers).size() == newcomers.size();
}

// Only all of one start together can have been promised the same.
std::vector<std::uint32_t> ElasticJob::let_in_as_promised() const {
  const std::vector<std::uint32_t> waiting = in_state(SlotState::at_door);
  for (const std::uint32_t first : waiting) {
    const auto& promised = slots_[first].promised;
    std::vector<std::uint32_t> newcomers;
    for (const std::uint32_t slot : waiting)
      if (slots_[slot].promised == promised) newcomers.push_back(slot);
    if (promised && newcomers.front() == first && deal_with(newcomers).slots == promised->slots &&
        can_begin(promised->slots.size(), newcomers))
      return newcomers;
  }
  return {};
}

// Newcomers of another epoch may come before.
bool ElasticJob::may_still_fit(const Assignment& promised) const {
  std::vector<std::uint32_t> newcomers;
  std::set<const Assignment*> others;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    const SlotRecord& record = slots_[slot];
    if (!record.promised ||
        (record.state != SlotState::starting && record.state != SlotState::at_door))
      continue;
    if (record.promised.get() != &promised) {
      others.insert(record.promised.get());
    } else if (record.state == SlotState::starting && record.is_slow) {
      return false;
    } else {
      newcomers.push_back(slot);
    }
  }
  if (!can_begin(promised.slots.size(), newcomers)) return false;
  if (deal_with(newcomers).slots == promised.slots) return true;
  return std::any_of(others.begin(), others.end(), [&](const Assignment* other) {
    return other->slots.size() < promised.slots.size() &&
           deal_ranks(table_, other->slots, newcomers).slots == promised.slots &&
           may_still_fit(*other);
  });
}

void ElasticJob::restart_misfits(TimePoint now) {
  for (const std::uint32_t slot : in_state(SlotState::starting))
    slots_[slot].is_slow = now - slots_[slot].started_at >= kSlowStart;
  if ((phase_ != Phase::open && phase_ != Phase::waiting) || !let_in().empty()) return;
  for (const std::uint32_t slot : in_state(SlotState::at_door)) {
    SlotRecord& record = slots_[slot];
    if (record.promised && may_still_fit(*record.promised)) continue;
    record.state = SlotState::ending;
    decide({.what = What::retire_slot, .slot = slot});
  }
}

bool ElasticJob::leave_out_host_of(std::uint32_t failed, TimePoint now) {
  bool members = false;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (horovod_->hosts[slot] != horovod_->hosts[failed]) continue;
    SlotRecord& record = slots_[slot];
    switch (record.state) {
      case SlotState::member:
      case SlotState::starting:
      case SlotState::at_door:
        members = members || record.state == SlotState::member;
        record.banned = true;
        record.waits = false;
        record.state = SlotState::ending;
        decide({.what = What::retire_slot, .slot = slot});
        break;
      case SlotState::dying:
      case SlotState::ending:
        record.banned = true;
        break;
      case SlotState::gone:
      case SlotState::away:
      case SlotState::unwanted:
        record.banned = true;
        record.leave_out();
        break;
      case SlotState::leaving:
      case SlotState::done:
      case SlotState::left_out:
        break;
    }
    if (record.banned && !record.out_until) begin_cooldown(slot, now);
  }
  return members;
}

bool ElasticJob::is_left_out(std::uint32_t host) const {
  if (!horovod_) return false;
  const auto slots = table_.on_host(host);
  return std::any_of(slots.begin(), slots.end(), [&](const RankPlace& slot) {
    return slots_[slot.rank].banned && horovod_->hosts[slot.rank] == table_.hosts()[host].name;
  });
}

std::optional<TimePoint> ElasticJob::next_horovod_deadline() const {
  std::optional<TimePoint> next;
  const bool somebody_waits = count(SlotState::at_door) > 0;
  for (const SlotRecord& slot : slots_) {
    std::optional<TimePoint> at;
    if (slot.state == SlotState::gone)
      at = std::max(slot.start_at(), horovod_->start_at.value_or(slot.start_at()));
    if (slot.state == SlotState::starting && somebody_waits && !slot.is_slow)
      at = slot.started_at + kSlowStart;
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

}  // namespace hvdrun
