// Hosts that come and go while an elastic job runs: which slots it is to have.
#include <algorithm>
#include <map>

#include "common/base/limits.h"
#include "coordinator/elastic/elastic_job.h"

namespace hvdrun {
namespace {

bool has_process(SlotState state) {
  switch (state) {
    case SlotState::member:
    case SlotState::dying:
    case SlotState::starting:
    case SlotState::at_door:
      return true;
    default:
      return false;
  }
}

// Its work is at its end.
bool is_finished(SlotState state) {
  return state == SlotState::leaving || state == SlotState::done;
}

}  // namespace

void ElasticJob::hosts_change(std::uint32_t max_np) {
  max_np_ = max_np;
  const std::vector<HostSlots>& hosts = table_.hosts();
  for (std::uint32_t host = 0; host < hosts.size(); ++host) {
    host_is_there_[host] = table_.count_on(host) > 0;
    listed_.push_back({host, hosts[host].name, hosts[host].slots, host_is_there_[host]});
  }
}

void ElasticJob::list_hosts(const std::vector<Host>& hosts, TimePoint now) {
  if (phase_ == Phase::over || !max_np_) return;
  for (const Host& host : hosts) {
    if (host.index >= table_.hosts().size()) table_.add_host({host.name, host.slots});
    table_.set_slots(host.index, host.slots);
    if (host.index >= host_is_there_.size()) host_is_there_.resize(host.index + 1);
    host_is_there_[host.index] = host.is_there;
  }
  listed_ = hosts;
  last_change_ = "hosts have come or gone";
  choose_and_want(now);
  proceed(now);
}

void ElasticJob::choose_and_want(TimePoint now) {
  choose_again_ = false;
  const std::vector<bool> wanted = choose(now);
  for (std::uint32_t slot = 0; slot < wanted.size(); ++slot) want(slot, wanted[slot], now);
  decide({.what = What::open_hosts});
}

// Those that have a process come first: who is there stays. A slot that has failed too often takes
// nobody's place.
std::vector<bool> ElasticJob::choose(TimePoint now) {
  std::vector<bool> wanted(slots_.size(), false);
  std::uint32_t room = *max_np_;
  std::map<std::uint32_t, std::uint32_t> places;  // that are left on a host
  const auto take = [&](std::uint32_t slot, std::uint32_t host) {
    wanted[slot] = true;
    --room;
    --places[host];
  };
  bool finishing = false;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!is_finished(slots_[slot].state)) continue;
    finishing = wanted[slot] = true;
    if (room > 0) --room;
  }
  for (const Host& host : listed_) {
    places[host.index] = host.slots;
    for (const RankPlace& here : table_.on_host(host.index))
      if (room > 0 && places[host.index] > 0 && has_process(slots_[here.rank].state))
        take(here.rank, host.index);
  }
  // Nobody begins with a job that ends.
  if (finishing) return wanted;
  for (const Host& host : listed_) {
    for (const RankPlace& here : table_.on_host(host.index))
      if (room > 0 && places[host.index] > 0 && !wanted[here.rank] &&
          slots_[here.rank].state != SlotState::left_out)
        take(here.rank, host.index);
    // A left out slot is one of the host's places.
    const std::uint32_t known = table_.count_on(host.index);
    for (std::uint32_t i = known; i < host.slots && room > 0 && slots_.size() < limits::kMaxRanks;
         ++i) {
      table_.add_slot(host.index);
      slots_.emplace_back();
      slots_.back().wanted = false;
      slots_.back().starts = 0;
      slots_.back().settle(false, now);
      entered_.push_back(false);
      wanted.push_back(false);
      decide({.what = What::add_slot,
              .slot = static_cast<std::uint32_t>(slots_.size() - 1),
              .host = host.index});
      take(static_cast<std::uint32_t>(slots_.size() - 1), host.index);
    }
  }
  return wanted;
}

void ElasticJob::want(std::uint32_t slot, bool wanted, TimePoint now) {
  SlotRecord& record = slots_[slot];
  record.wanted = wanted;
  switch (record.state) {
    case SlotState::unwanted:
      if (wanted) record.settle(is_there(slot), now);
      break;
    case SlotState::gone:
    case SlotState::away:
      if (!wanted) record.settle(false, now);
      break;
    case SlotState::starting:
    case SlotState::at_door:
      if (wanted) break;
      record.state = SlotState::ending;
      decide({.what = What::retire_slot, .slot = slot});
      break;
    case SlotState::member:  // asked, and let go when the next epoch begins
    case SlotState::dying:
    case SlotState::leaving:
    case SlotState::done:
    case SlotState::left_out:
    case SlotState::ending:  // its end shows what is wanted then
      break;
  }
}

bool ElasticJob::is_there(std::uint32_t slot) const { return host_is_there_[table_[slot].host]; }

bool ElasticJob::may_leave() const {
  std::size_t leave = 0;
  std::size_t stay = 0;
  for (const std::uint32_t slot : order_)
    if (slots_[slot].state == SlotState::member) ++(slots_[slot].wanted ? stay : leave);
  // Somebody has to have the state.
  return leave > 0 && stay > 0 && stay + count(SlotState::at_door) >= min_np_;
}

std::vector<std::uint32_t> ElasticJob::staying() const {
  const bool some_leave = may_leave();
  std::vector<std::uint32_t> members;
  for (const std::uint32_t slot : order_)
    if (slots_[slot].state == SlotState::member && (slots_[slot].wanted || !some_leave))
      members.push_back(slot);
  return members;
}

}  // namespace hvdrun
