// Hosts that come and go while an elastic job runs: which slots it is to have.
#include <algorithm>
#include <cassert>
#include <map>

#include "common/base/limits.h"
#include "coordinator/elastic/elastic_job.h"

namespace hvdrun {
namespace {

bool is_member(SlotState state) { return state == SlotState::member || state == SlotState::dying; }

bool is_newcomer(SlotState state) {
  return state == SlotState::starting || state == SlotState::at_door;
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
    hosts_[host].is_there = table_.count_on(host) > 0;
    listed_.push_back({host, hosts[host].slots});
  }
}

void ElasticJob::add_host(HostSlots host) {
  table_.add_host(std::move(host));
  hosts_.push_back({.is_there = false});
}

void ElasticJob::list_hosts(std::vector<Host> hosts, TimePoint now) {
  if (phase_ == Phase::over || !max_np_) return;
  for (const Host& host : hosts) {
    assert(host.index < hosts_.size());
    table_.set_slots(host.index, host.slots);
  }
  listed_ = std::move(hosts);
  last_change_ = "hosts have come or gone";
  choose_and_want(now);
  proceed(now);
}

void ElasticJob::end_host(std::uint32_t host) {
  if (phase_ == Phase::over) return;
  for (const RankPlace& here : table_.on_host(host))
    if (slots_[here.rank].state == SlotState::member && !slots_[here.rank].wanted)
      decide({.what = What::retire_slot, .slot = here.rank});
}

void ElasticJob::host_gone(std::uint32_t host) {
  hosts_[host].is_there = false;
  deadline_.reset();
  if (hosts_[host].leaves_until) hosts_[host].leaves_until = last_event_ + kLeavingPause;
}

void ElasticJob::host_leaves(std::uint32_t host, TimePoint now) {
  if (phase_ == Phase::over || hosts_[host].leaves_until || !hosts_[host].is_there) return;
  hosts_[host].leaves_until = TimePoint::max();
  last_change_ = "host " + table_.hosts()[host].name + " leaves";
  if (max_np_)
    choose_and_want(now);
  else
    for (const RankPlace& slot : table_.on_host(host)) want(slot.rank, false, now);
  proceed(now);
}

void ElasticJob::end_pauses_of_hosts(TimePoint now) {
  for (std::uint32_t host = 0; host < hosts_.size(); ++host) {
    HostRecord& record = hosts_[host];
    if (!record.leaves_until || *record.leaves_until > now) continue;
    record.leaves_until.reset();
    choose_again_ = true;
    if (max_np_) continue;
    for (const RankPlace& slot : table_.on_host(host)) want(slot.rank, true, now);
    decide({.what = What::open_hosts});
  }
}

void ElasticJob::choose_and_want(TimePoint now) {
  choose_again_ = false;
  const std::vector<bool> wanted = choose(now);
  for (std::uint32_t slot = 0; slot < wanted.size(); ++slot) want(slot, wanted[slot], now);
  decide({.what = What::open_hosts});
}

// Members come first, then who is on the way, then others. A slot that has failed too often takes
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
  const auto take_those = [&](auto is_one) {
    for (const Host& host : listed_)
      for (const RankPlace& here : table_.on_host(host.index))
        if (room > 0 && places[host.index] > 0 && !wanted[here.rank] &&
            is_one(slots_[here.rank].state))
          take(here.rank, host.index);
  };
  bool finishing = false;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot) {
    if (!is_finished(slots_[slot].state)) continue;
    finishing = wanted[slot] = true;
    if (room > 0) --room;
  }
  for (const Host& host : listed_)
    places[host.index] = hosts_[host.index].lost_for_good || hosts_[host.index].leaves_until ||
                                 is_left_out(host.index)
                             ? 0
                             : host.slots;
  take_those(is_member);
  take_those(is_newcomer);
  // Nobody begins with a job that ends. If its ranks come back after all, so does the question.
  missed_ = missed_ || finishing;
  if (finishing) return wanted;
  take_those([](SlotState state) { return state != SlotState::left_out; });
  for (const Host& host : listed_) {
    // A left out slot is one of the host's places.
    for (std::uint32_t i = table_.count_on(host.index);
         i < host.slots && room > 0 && places[host.index] > 0 && slots_.size() < limits::kMaxRanks;
         ++i) {
      add_slot(host.index, now);
      wanted.push_back(false);
      take(static_cast<std::uint32_t>(slots_.size() - 1), host.index);
    }
  }
  return wanted;
}

void ElasticJob::add_slot(std::uint32_t host, TimePoint now) {
  table_.add_slot(host);
  SlotRecord& record = slots_.emplace_back();
  if (horovod_) horovod_->hosts.push_back(table_.hosts()[host].name);
  record.wanted = false;
  record.starts = 0;
  record.settle(false, now);
  entered_.push_back(false);
  decide({.what = What::add_slot,
          .slot = static_cast<std::uint32_t>(slots_.size() - 1),
          .host = host});
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

bool ElasticJob::is_there(std::uint32_t slot) const { return hosts_[table_[slot].host].is_there; }

std::size_t ElasticJob::needed() const {
  const std::size_t done = count(SlotState::done);
  if (done == 0) return min_np_;
  const auto wanted = static_cast<std::size_t>(std::count_if(
      slots_.begin(), slots_.end(), [](const SlotRecord& one) { return one.wanted; }));
  return std::min<std::size_t>(min_np_, wanted - done);
}

bool ElasticJob::may_leave(std::size_t newcomers) const {
  std::size_t leave = 0;
  std::size_t stay = 0;
  for (const std::uint32_t slot : order_)
    if (slots_[slot].state == SlotState::member) ++(slots_[slot].wanted ? stay : leave);
  // Somebody has to have the state. If that is one alone, who could be lost, the others stay until
  // the newcomers have it, too.
  return leave > 0 && stay > (newcomers > 0 ? 1U : 0U) && stay + newcomers >= needed();
}

std::vector<std::uint32_t> ElasticJob::staying(std::size_t newcomers) const {
  const bool some_leave = may_leave(newcomers);
  std::vector<std::uint32_t> members;
  for (const std::uint32_t slot : order_)
    if (slots_[slot].state == SlotState::member && (slots_[slot].wanted || !some_leave))
      members.push_back(slot);
  return members;
}

std::vector<std::uint32_t> ElasticJob::let_in() const {
  return horovod_ ? let_in_as_promised() : with_room(in_state(SlotState::at_door));
}

std::vector<std::uint32_t> ElasticJob::with_room(std::vector<std::uint32_t> newcomers) const {
  if (!max_np_) return newcomers;
  const std::vector<std::uint32_t> members = staying(newcomers.size());
  const auto stay = std::count_if(members.begin(), members.end(),
                                  [this](std::uint32_t slot) { return slots_[slot].wanted; });
  // When all members are to leave, or all but one, the state is handed on first.
  if (stay < 2 && static_cast<std::size_t>(stay) < members.size()) return newcomers;
  const std::size_t room = *max_np_ - std::min<std::size_t>(*max_np_, members.size());
  if (newcomers.size() > room) newcomers.resize(room);
  return newcomers;
}

}  // namespace hvdrun
