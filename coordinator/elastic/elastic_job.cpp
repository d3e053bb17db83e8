#include "coordinator/elastic/elastic_job.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

// " for 10 s", of a slot that is left out.
std::string until_text(const SlotRecord& slot, TimePoint now) {
  return slot.out_until ? " for " + whole_seconds(*slot.out_until - now) : "";
}

}  // namespace

ElasticJob::ElasticJob(RankTable table, std::uint32_t min_np, std::chrono::milliseconds timeout,
                       std::chrono::milliseconds stall_shutdown)
    : table_(std::move(table)),
      hosts_(table_.hosts().size()),
      slots_(table_.size()),
      entered_(table_.size(), false),
      timeout_(timeout),
      late_after_(stall_shutdown.count() > 0 ? std::min(timeout, stall_shutdown) : timeout),
      min_np_(min_np) {
  for (std::uint32_t slot = 0; slot < table_.size(); ++slot) order_.push_back(slot);
}

std::string ElasticJob::name_of(std::uint32_t slot) const {
  if (!slots_[slot].died_as.empty()) return slots_[slot].died_as;
  const auto found = std::find(order_.begin(), order_.end(), slot);
  if (found == order_.end()) return "the new process of slot " + std::to_string(slot);
  return "rank " + std::to_string(found - order_.begin());
}

void ElasticJob::entered(std::uint32_t slot, const std::string& layout) {
  entered_[slot] = true;
  if (!layout.empty() && layouts_.size() < kMostLayouts &&
      std::find(layouts_.begin(), layouts_.end(), layout) == layouts_.end())
    layouts_.push_back(layout);
  deadline_.reset();
  if (goes_on_) return;
  goes_on_ = std::all_of(order_.begin(), order_.end(),
                         [this](std::uint32_t member) { return entered_[member]; });
  if (!goes_on_) return;
  // A goodbye may have overtaken the word of another host.
  for (SlotRecord& record : slots_)
    if (record.state == SlotState::member && record.goodbye) record.state = SlotState::leaving;
}

std::uint32_t ElasticJob::count(SlotState state) const {
  return static_cast<std::uint32_t>(std::count_if(
      slots_.begin(), slots_.end(), [state](const SlotRecord& one) { return one.state == state; }));
}

std::vector<std::uint32_t> ElasticJob::in_state(SlotState state) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t slot = 0; slot < slots_.size(); ++slot)
    if (slots_[slot].state == state) found.push_back(slot);
  return found;
}

void ElasticJob::lose(std::uint32_t slot, TimePoint now) {
  bool was_member =
      slots_[slot].state == SlotState::member || slots_[slot].state == SlotState::leaving;
  slots_[slot].lost(now);
  if (horovod_)
    was_member = leave_out_host_of(slot, now) || was_member;
  else if (slots_[slot].state == SlotState::left_out)
    begin_cooldown(slot, now);
  choose_again_ = choose_again_ || slots_[slot].state == SlotState::left_out;
  if (slots_[slot].state == SlotState::unwanted) decide({.what = What::open_hosts});
  if (!was_member) return;
  if (!first_lost_) first_lost_ = slot;
  gather(now);
}

void ElasticJob::dying(std::uint32_t slot, TimePoint now) {
  SlotRecord& record = slots_[slot];
  if (phase_ == Phase::over || record.state != SlotState::member) return;
  record.died_as = name_of(slot);
  record.state = SlotState::dying;
  record.waits = false;
  if (!first_lost_) first_lost_ = slot;
  gather(now);
  proceed(now);
}

void ElasticJob::lost(std::uint32_t slot, const std::string& how, TimePoint now) {
  if (phase_ == Phase::over) return;
  if (slots_[slot].state == SlotState::ending) {
    slots_[slot].settle(is_there(slot), now);
    decide({.what = What::open_hosts});
    return proceed(now);
  }
  const std::string name = name_of(slot);
  last_change_ = name + " " + how;
  lose(slot, now);
  // Nothing is started again when nobody is left; then this is the verdict's to say.
  if (count(SlotState::member) > 0) say(name + " " + how + "; " + what_follows(slot, now));
  proceed(now);
}

std::string ElasticJob::what_follows(std::uint32_t slot, TimePoint now) const {
  const SlotRecord& record = slots_[slot];
  if (record.state == SlotState::unwanted) return "it was to leave anyway";
  if (record.state == SlotState::left_out && horovod_)
    return "no rank is started on " + horovod_->hosts[slot] + until_text(record, now);
  if (record.state == SlotState::left_out)
    return "it is not started again" + until_text(record, now) + ", as that was " +
           std::to_string(record.losses()) + " times within " +
           std::to_string(SlotRecord::kWindow.count()) + " minutes";
  if (record.start_at() > now)
    return "it is started again in " + whole_seconds(record.start_at() - now);
  return "it is started again";
}

void ElasticJob::done(std::uint32_t slot, TimePoint now) {
  slots_[slot].state = SlotState::done;
  proceed(now);
}

void ElasticJob::leaves(std::uint32_t slot, TimePoint now) {
  SlotRecord& record = slots_[slot];
  if (record.state != SlotState::member) return;
  // Programs that do not go on may all join again.
  record.goodbye = true;
  if (!goes_on_) return;
  record.state = SlotState::leaving;
  proceed(now);
}

bool ElasticJob::knows(const std::string& layout) const {
  return layout.empty() || layouts_.empty() || layouts_.size() == kMostLayouts ||
         std::find(layouts_.begin(), layouts_.end(), layout) != layouts_.end();
}

void ElasticJob::at_door(std::uint32_t slot, bool waits, TimePoint now, const std::string& layout) {
  SlotRecord& record = slots_[slot];
  const bool gathers = phase_ == Phase::gathering || phase_ == Phase::waiting;
  switch (record.state) {
    case SlotState::member:
      record.waits = waits;
      if (waits) {
        record.goodbye = false;
        if (gathers && somebody_is_missing()) return;
        gather(now);
      } else if (ended_late_) {
        start_clock(now, late_after_);
      }
      break;
    case SlotState::leaving:  // it comes back all the same
    case SlotState::starting:
      if (!waits) return;
      // Its end is a loss like others, so another build that stays is left out.
      if (record.state == SlotState::starting && !knows(layout)) {
        say("the new process of slot " + std::to_string(slot) +
            " is ended, as it runs another program: its state is " +
            printable(layout, limits::kMaxStateLayout) + ", that of the ranks " +
            printable(layouts_.back(), limits::kMaxStateLayout));
        return decide({.what = What::retire_slot, .slot = slot});
      }
      record.came_back = record.state == SlotState::leaving;
      if (record.came_back) choose_again_ = choose_again_ || std::exchange(missed_, false);
      record.state = SlotState::at_door;
      break;
    case SlotState::at_door:
      if (waits) return;
      record.state =
          std::exchange(record.came_back, false) ? SlotState::leaving : SlotState::starting;
      break;
    case SlotState::done:
    case SlotState::dying:
    case SlotState::gone:
    case SlotState::away:
    case SlotState::left_out:
    case SlotState::ending:
    case SlotState::unwanted:
      return;
  }
  proceed(now);
}

void ElasticJob::host_lost(const std::vector<std::uint32_t>& slots, const std::string& why,
                           bool may_return, TimePoint now) {
  if (phase_ == Phase::over) return;
  last_change_ = why;
  bool any = false;
  for (const std::uint32_t slot : slots) {
    SlotRecord& record = slots_[slot];
    HostRecord& host = hosts_[table_[slot].host];
    host.is_there = false;
    host.lost_for_good = host.lost_for_good || !may_return;
    switch (record.state) {
      case SlotState::done:
      case SlotState::left_out:
        continue;
      // One that has no process loses none.
      case SlotState::gone:
      case SlotState::away:
      case SlotState::unwanted:
        break;
      case SlotState::ending:
        record.settle(false, now);
        break;
      default:
        lose(slot, now);
    }
    if (!may_return) {
      record.leave_out();
      record.out_until.reset();
      choose_again_ = true;
    } else if (record.state != SlotState::left_out && record.state != SlotState::unwanted) {
      record.state = SlotState::away;
      any = true;
    }
  }
  say(why + (any ? "; its ranks are started again when it answers"
                 : "; its ranks are not started again"));
  proceed(now);
}

void ElasticJob::host_back(std::uint32_t host, TimePoint now) {
  if (phase_ == Phase::over) return;
  hosts_[host].is_there = true;
  for (const RankPlace& here : table_.on_host(host))
    if (slots_[here.rank].state == SlotState::away) slots_[here.rank].state = SlotState::gone;
  proceed(now);
}

bool ElasticJob::opened(TimePoint now) {
  if (phase_ != Phase::meeting) return false;
  phase_ = Phase::open;
  first_lost_.reset();
  proceed(now);
  return true;
}

// The clock for who is late runs from the first reason on.
void ElasticJob::gather(TimePoint now) {
  if (phase_ != Phase::open && phase_ != Phase::meeting) return;
  phase_ = Phase::gathering;
  start_clock(now, late_after_);
}

void ElasticJob::start_clock(TimePoint now, std::chrono::milliseconds limit) {
  wait_until_ = now + limit;
  next_news_ = now + kNews;
  goodbyes_until_ = now + kGoodbye;
  ended_late_ = false;
}

std::vector<std::uint32_t> ElasticJob::take_back() {
  std::vector<std::uint32_t> members;
  for (const std::uint32_t slot : order_) {
    SlotRecord& record = slots_[slot];
    if (record.state != SlotState::at_door || !record.came_back) continue;
    record.state = SlotState::member;
    record.waits = true;
    members.push_back(slot);
  }
  return members;
}

void ElasticJob::begin_epoch() {
  if (reset_limit_ && resets_++ == *reset_limit_) {
    phase_ = Phase::over;
    return decide({.what = What::too_many,
                   .text = "the ranks were to meet anew, and --reset-limit allows that " +
                           std::to_string(*reset_limit_) +
                           (*reset_limit_ == 1 ? " time" : " times") +
                           (last_change_.empty() ? "" : "; " + last_change_)});
  }
  const std::vector<std::uint32_t> newcomers = let_in();
  const std::vector<std::uint32_t> survivors = staying(newcomers.size());
  // The reader is to know why there are fewer ranks; the cause comes later.
  for (const std::uint32_t slot : order_)
    if (slots_[slot].state == SlotState::dying)
      say(name_of(slot) + " has died; its process is ending");
  Decision decision{.what = What::begin_epoch};
  decision.dealt = deal_ranks(table_, survivors, newcomers);
  const std::vector<std::uint32_t> before = std::exchange(order_, decision.dealt.slots);
  for (const std::uint32_t slot : order_) {
    slots_[slot].state = SlotState::member;
    slots_[slot].waits = slots_[slot].goodbye = slots_[slot].came_back = false;
  }
  phase_ = Phase::meeting;
  asked_ = false;
  ask_at_.reset();
  decide(std::move(decision));
  for (std::uint32_t rank = 0; rank < before.size(); ++rank) {
    SlotRecord& record = slots_[before[rank]];
    if (record.state != SlotState::member || record.wanted) continue;
    if (std::find(order_.begin(), order_.end(), before[rank]) != order_.end()) continue;
    say("rank " + std::to_string(rank) + " on " + table_.host_name(before[rank]) +
        " has left: " + std::to_string(order_.size()) + " go on without it");
    record.state = SlotState::ending;
    decide({.what = What::retire_slot, .slot = before[rank]});
  }
}

void ElasticJob::start_slots(TimePoint now) {
  std::vector<std::uint32_t> due;
  for (const std::uint32_t slot : in_state(SlotState::gone))
    if (slots_[slot].start_at() <= now) due.push_back(slot);
  if (horovod_) return start_as_promised(due, now);
  for (const std::uint32_t slot : due) start_slot(slot, now);
}

void ElasticJob::start_slot(std::uint32_t slot, TimePoint now) {
  SlotRecord& record = slots_[slot];
  record.state = SlotState::starting;
  record.started_at = now;
  record.is_slow = false;
  ++record.starts;
  decide({.what = What::start_slot, .slot = slot, .promised = record.promised});
}

void ElasticJob::begin_cooldown(std::uint32_t slot, TimePoint now) {
  if (!cooldown_) return;
  SlotRecord& record = slots_[slot];
  const unsigned doublings = std::min(record.times_out++, 20U);
  record.out_until = now + std::min(cooldown_->first * (1U << doublings), cooldown_->most);
}

void ElasticJob::end_cooldowns(TimePoint now) {
  for (const std::uint32_t slot : in_state(SlotState::left_out)) {
    SlotRecord& record = slots_[slot];
    if (!record.out_until || *record.out_until > now) continue;
    // Where hosts come and go, it is for choose() to want it.
    record.wanted = !max_np_ && !hosts_[table_[slot].host].leaves_until;
    record.take_back(is_there(slot), now);
    choose_again_ = true;
    if (record.state == SlotState::away) decide({.what = What::open_hosts});
  }
}

bool ElasticJob::somebody_is_missing() const {
  return slots_[missing_].state == SlotState::member && !slots_[missing_].waits;
}

void ElasticJob::proceed(TimePoint now) {
  last_event_ = now;
  deadline_.reset();
  if (phase_ == Phase::over) return;
  waits_for_goodbyes_ = false;
  std::vector<std::uint32_t> members = in_state(SlotState::member);
  if (members.empty()) {
    // The end of a process may be the verdict.
    if (count(SlotState::leaving) + count(SlotState::dying) > 0 || !goes_on_) return;
    members = take_back();
    if (members.empty()) return end();
    gather(now);
  }
  end_cooldowns(now);
  end_pauses_of_hosts(now);
  if (choose_again_ && max_np_ && goes_on_) choose_and_want(now);
  start_slots(now);
  if (horovod_) restart_misfits(now);
  const std::size_t newcomers = let_in().size();
  if (phase_ == Phase::open && !asked_) ask_when_it_is_time(newcomers, now);
  if (phase_ != Phase::gathering && phase_ != Phase::waiting) return;
  // They come host by host, so the last one is missing for the longest.
  const auto missing = std::find_if(members.rbegin(), members.rend(),
                                    [this](std::uint32_t slot) { return !slots_[slot].waits; });
  if (missing != members.rend()) {
    missing_ = *missing;
    return look_for_late_members(members, now);
  }
  // One that comes back after its goodbye does so at once, as all of its program do.
  waits_for_goodbyes_ = count(SlotState::leaving) > 0 && now < goodbyes_until_;
  if (waits_for_goodbyes_) return;
  const std::size_t ranks = staying(newcomers).size() + newcomers;
  if (ranks >= needed()) return begin_epoch();
  wait_for_more(ranks, now);
}

// The state that a newcomer could go on with is lost, or is not needed.
void ElasticJob::end() {
  phase_ = Phase::over;
  if (first_lost_) return decide({.what = What::all_lost, .slot = *first_lost_});
  decide({.what = What::finished});
}

void ElasticJob::tick(TimePoint now) { proceed(now); }

std::optional<TimePoint> ElasticJob::find_deadline() const {
  // Those who have said goodbye end when they like.
  if (phase_ == Phase::over || count(SlotState::member) == 0) return std::nullopt;
  std::optional<TimePoint> next;
  const auto earlier = [&next](TimePoint at) {
    if (!next || at < *next) next = at;
  };
  for (const SlotRecord& slot : slots_) {
    if (slot.state == SlotState::gone && !horovod_) earlier(slot.start_at());
    if (slot.state == SlotState::left_out && slot.out_until) earlier(*slot.out_until);
  }
  for (const HostRecord& host : hosts_)
    if (host.leaves_until && *host.leaves_until != TimePoint::max()) earlier(*host.leaves_until);
  if (horovod_)
    if (const auto at = next_horovod_deadline()) earlier(*at);
  if ((phase_ == Phase::waiting || phase_ == Phase::gathering) && !ended_late_)
    earlier(std::min(wait_until_, next_news_));
  if (waits_for_goodbyes_) earlier(goodbyes_until_);
  if (phase_ == Phase::open && ask_at_) earlier(*ask_at_);
  return next;
}

}  // namespace hvdrun
