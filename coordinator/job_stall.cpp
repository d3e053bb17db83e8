// Waits in the middle of the job: ranks for those that do not take part.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "common/base/exit_code.h"
#include "coordinator/job.h"
#include "coordinator/stall_text.h"

namespace hvdrun {

Errc Job::on_rank_stalled(std::uint32_t host, const Frame& frame, TimePoint now) {
  RankStalled message;
  if (decode(frame.payload, message) || !membership_.owns(host, message.rank))
    return Errc::malformed;
  stall_inspector_.noticed(message.age_ms, now);
  look_into_stalls(now);
  return Errc::ok;
}

Errc Job::on_rank_pictures(std::uint32_t host, const Frame& frame, TimePoint now) {
  RankPictures message;
  if (decode(frame.payload, message)) return Errc::malformed;
  for (const RankPicture& picture : message.ranks)
    if (!membership_.owns(host, picture.probe.rank) || !within_limits(picture))
      return Errc::malformed;
  if (elastic_) {
    // Operations name ranks of the epoch.
    std::erase_if(message.ranks, [this](RankPicture& picture) {
      const auto rank = membership_.rank_of(picture.probe.rank);
      picture.probe.rank = rank.value_or(0);
      return !rank;
    });
  }
  survey_.answered(host, std::move(message));
  look_into_stalls(now);
  return Errc::ok;
}

void Job::open_survey(RankSurvey::About about, TimePoint now) {
  std::set<std::uint32_t> hosts;
  for (const RankRecord& record : membership_.ranks())
    if (record.state != RankState::exited && !hosts_.is_lost(record.place.host))
      hosts.insert(record.place.host);
  const SurveyRanks question{survey_.open(about, hosts, now)};
  for (const std::uint32_t host : hosts) to_agent(host, question);
}

void Job::look_into_stalls(TimePoint now) {
  if (state_ != JobState::running) return;
  if (const auto ranks = survey_.take(now)) {
    switch (survey_.about()) {
      case RankSurvey::About::stall:
        judge_stall(*ranks, now);
        break;
      case RankSurvey::About::missing_in_init:
        describe_missing(init_.watch(now), *ranks);  // some have come since
        break;
      case RankSurvey::About::missing_in_horovod:
        describe_missing(horovod_watch_, *ranks);
        break;
      case RankSurvey::About::hang_in_init:
        judge_init(*ranks, now);
        break;
    }
  }
  if (state_ != JobState::running || survey_.is_open()) return;
  if (init_.doubt().any()) return open_survey(RankSurvey::About::hang_in_init, now);
  if (stall_inspector_.take_round(now)) open_survey(RankSurvey::About::stall, now);
}

void Job::judge_stall(const SurveyedRanks& ranks, TimePoint now) {
  const Membership members = membership_.in_ranks();
  const auto [say, stall] = stall_inspector_.judge(ranks, members);
  if (say == StallInspector::Say::nothing) return;  // it has come to an end meanwhile
  if (goes_on() && !elastic_->is_open()) return;    // its ranks are about to give it up
  const bool ends = say == StallInspector::Say::shutdown;
  to_driver(stall_warning(stall, ends && !goes_on(), ranks, members));
  if (!ends) return;
  if (goes_on()) {
    // They have the others wait for ever: as good as lost.
    for (const std::uint32_t rank : stall.missing)
      if (rank < membership_.order().size()) end_slot(membership_.order()[rank]);
    return;
  }
  JobEnded verdict;
  verdict.cause = EndCause::stalled;
  verdict.exit_code = exit_code::kStalled;
  verdict.text = stall_cause(stall, members);
  fail(std::move(verdict), now);
}

}  // namespace hvdrun
