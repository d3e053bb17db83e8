// The members and newcomers that are waited for, and what is said of them.
#include <algorithm>

#include "common/base/limits.h"
#include "common/base/rank_ranges.h"
#include "coordinator/elastic/elastic_job.h"

namespace hvdrun {
namespace {

std::string ranks_text(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " rank" : " ranks");
}

}  // namespace

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
      say(name_of(slot) + " has not come to meet the others for " + whole_seconds(late_after_) +
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
      whole_seconds(wait_until_ - now) + " it is killed");
}

void ElasticJob::ask_when_it_is_time(std::size_t newcomers, TimePoint now) {
  if (newcomers == 0) ask_at_.reset();
  if (!may_leave(newcomers)) {
    if (newcomers == 0) return;
    if (!ask_at_) ask_at_ = now + kTogether;
    // A Horovod program's newcomers are all that were started together.
    if (!horovod_ && count(SlotState::starting) > 0 && now < *ask_at_) return;
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
                                    count(SlotState::away) + count(SlotState::ending) ==
                                0 &&
                            !max_np_ && !cooldown_;
  if (now >= wait_until_ || nobody_comes) {
    phase_ = Phase::over;
    return decide({.what = What::too_few, .slot = first_lost_.value_or(0), .text = few});
  }
  if (now < next_news_) return;
  next_news_ = now + kNews;
  say(few + ", for " + whole_seconds(wait_until_ - now) + " at most");
}

}  // namespace hvdrun
