#include "coordinator/elastic/elastic_job.h"

#include <algorithm>

#include "common/base/limits.h"
#include "common/base/rank_ranges.h"

namespace hvdrun {
namespace {

std::string seconds_text(std::chrono::steady_clock::duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + " s";
}

std::string ranks_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " rank" : " ranks");
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

void ElasticJob::entered(std::uint32_t slot) {
  entered_[slot] = true;
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
  const bool was_member =
      slots_[slot].state == SlotState::member || slots_[slot].state == SlotState::leaving;
  slots_[slot].lost(now);
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
  if (record.state == SlotState::left_out)
    return "it is not started again, as that was " + std::to_string(record.losses()) +
           " times within " + std::to_string(SlotRecord::kWindow.count()) + " minutes";
  if (record.start_at() > now)
    return "it is started again in " + seconds_text(record.start_at() - now);
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

void ElasticJob::at_door(std::uint32_t slot, bool waits, TimePoint now) {
  SlotRecord& record = slots_[slot];
  switch (record.state) {
    case SlotState::member:
      record.waits = waits;
      if (waits) {
        record.goodbye = false;
        gather(now);
      } else if (ended_late_) {
        start_clock(now, late_after_);
      }
      break;
    case SlotState::leaving:  // it comes back all the same
    case SlotState::starting:
      if (!waits) return;
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
  const std::vector<std::uint32_t> survivors = staying();
  // The reader is to know why there are fewer ranks; the cause comes later.
  for (const std::uint32_t slot : order_)
    if (slots_[slot].state == SlotState::dying)
      say(name_of(slot) + " has died; its process is ending");
  Decision decision{.what = What::begin_epoch};
  decision.dealt = deal_ranks(table_, survivors, let_in());
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

std::string ElasticJob::missing_text() const {
  std::vector<std::uint32_t> missing = in_state(SlotState::gone);
  for (const SlotState state : {SlotState::dying, SlotState::starting, SlotState::away})
    for (const std::uint32_t slot : in_state(state)) missing.push_back(slot);
  std::sort(missing.begin(), missing.end());
  if (missing.empty()) return max_np_ ? "a host is waited for" : "nobody is left who could come";
  return "slot " + rank_ranges(missing, limits::kMaxNamedRanges) + " is waited for";
}

void ElasticJob::look_for_late_members(const std::vector<std::uint32_t>& members, TimePoint now) {
  std::vector<std::uint32_t> late;
  for (const std::uint32_t slot : members)
    if (!slots_[slot].waits) late.push_back(slot);
  if (now >= wait_until_ && !std::exchange(ended_late_, true)) {
    for (const std::uint32_t slot : late) {
      say(name_of(slot) + " has not come to meet the others for " + seconds_text(late_after_) +
          (late_after_ < timeout_ ? " (--stall-check-shutdown-time-seconds)"
                                  : " (--elastic-timeout)") +
          ", and is killed");
      decide({.what = What::end_slot, .slot = slot});
    }
  }
  if (ended_late_ || now < next_news_) return;
  next_news_ = now + kNews;
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < order_.size(); ++rank)
    if (std::find(late.begin(), late.end(), order_[rank]) != late.end()) ranks.push_back(rank);
  say("rank " + rank_ranges(ranks, limits::kMaxNamedRanges) +
      " has not come yet to meet the others, who wait for it; in " +
      seconds_text(wait_until_ - now) + " it is killed");
}

void ElasticJob::ask_when_it_is_time(bool newcomers, TimePoint now) {
  if (!newcomers) ask_at_.reset();
  if (!may_leave()) {
    if (!newcomers) return;
    if (!ask_at_) ask_at_ = now + kTogether;
    if (count(SlotState::starting) > 0 && now < *ask_at_) return;
  }
  asked_ = true;
  ask_at_.reset();
  decide({.what = What::ask_meeting});
}

void ElasticJob::wait_for_more(std::size_t ranks, TimePoint now) {
  if (phase_ != Phase::waiting) {
    phase_ = Phase::waiting;
    start_clock(now, timeout_);
  }
  const std::string few = (ranks == 1 ? "there is " : "there are ") + ranks_text(ranks) +
                          " of the " + std::to_string(min_np_) +
                          " that --min-np asks for: " + missing_text();
  const bool nobody_comes = count(SlotState::dying) + count(SlotState::gone) +
                                    count(SlotState::starting) + count(SlotState::leaving) +
                                    count(SlotState::away) ==
                                0 &&
                            !max_np_;
  if (now >= wait_until_ || nobody_comes) {
    phase_ = Phase::over;
    return decide({.what = What::too_few, .slot = first_lost_.value_or(0), .text = few});
  }
  if (now < next_news_) return;
  next_news_ = now + kNews;
  say(few + ", for " + seconds_text(wait_until_ - now) + " at most");
}

void ElasticJob::proceed(TimePoint now) {
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
  if (choose_again_ && max_np_ && goes_on_) choose_and_want(now);
  for (const std::uint32_t slot : in_state(SlotState::gone)) {
    if (slots_[slot].start_at() > now) continue;
    slots_[slot].state = SlotState::starting;
    ++slots_[slot].starts;
    decide({.what = What::start_slot, .slot = slot});
  }
  const std::size_t newcomers = let_in().size();
  if (phase_ == Phase::open && !asked_) ask_when_it_is_time(newcomers > 0, now);
  if (phase_ != Phase::gathering && phase_ != Phase::waiting) return;
  const bool all_here = std::all_of(members.begin(), members.end(),
                                    [this](std::uint32_t slot) { return slots_[slot].waits; });
  if (!all_here) return look_for_late_members(members, now);
  // One that comes back after its goodbye does so at once, as all of its program do.
  waits_for_goodbyes_ = count(SlotState::leaving) > 0 && now < goodbyes_until_;
  if (waits_for_goodbyes_) return;
  const std::size_t ranks = staying().size() + newcomers;
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

std::optional<TimePoint> ElasticJob::next_deadline() const {
  // Those who have said goodbye end when they like.
  if (phase_ == Phase::over || count(SlotState::member) == 0) return std::nullopt;
  std::optional<TimePoint> next;
  const auto earlier = [&next](TimePoint at) {
    if (!next || at < *next) next = at;
  };
  for (const SlotRecord& slot : slots_)
    if (slot.state == SlotState::gone) earlier(slot.start_at());
  if ((phase_ == Phase::waiting || phase_ == Phase::gathering) && !ended_late_)
    earlier(std::min(wait_until_, next_news_));
  if (waits_for_goodbyes_) earlier(goodbyes_until_);
  if (phase_ == Phase::open && ask_at_) earlier(*ask_at_);
  return next;
}

}  // namespace hvdrun
