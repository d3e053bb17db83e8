// Who waits for whom: ranks in an init for those that have not come, and ranks in the middle of the
// job for those that do not take part.
#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "common/exit_code.h"
#include "coordinator/job.h"
#include "coordinator/stall_text.h"

namespace hvdrun {

void Job::watch_fence(TimePoint now) {
  init_watch_is_old_ = fence_.count() > 0 && !init_watch_.waiting().empty();
  if (init_watch_is_old_) return;
  if (fence_.count() == 0) return init_watch_.update({}, {}, now);
  init_watch_.update(fence_.waiting(), fence_.missing(), now);
}

// Who waits for whom is counted when somebody asks: after each host's entry that would cost ranks x
// hosts.
InitWatch& Job::init_watch(TimePoint now) {
  if (std::exchange(init_watch_is_old_, false))
    init_watch_.update(fence_.waiting(), fence_.missing(), now);
  return init_watch_;
}

void Job::horovod_gathering(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
                            TimePoint now) {
  horovod_watch_.update(std::move(waiting), std::move(missing), now);
  fail_gathering_if_hopeless(now);
  end_if_done();
}

// The init that the rank waits in.
const InitWatch* Job::init_of(std::uint32_t rank, TimePoint now) {
  if (fence_.is_inside(rank)) return &init_watch(now);
  const auto& waiting = horovod_watch_.waiting();
  return std::binary_search(waiting.begin(), waiting.end(), rank) ? &horovod_watch_ : nullptr;
}

void Job::tick_init_watch(InitWatch& watch, TimePoint now) {
  switch (watch.tick(now)) {
    case InitWatch::Say::nothing:
      return;
    case InitWatch::Say::warning:
      to_driver(Log{LogLevel::warn, watch.warning(now)});
      // Before its next warning it is over, and an operation that waits can wait for that.
      if (!survey_.is_open()) open_survey(&watch, now);
      return;
    case InitWatch::Say::too_long:
      return fail(never_joined(who_never_joined(watch)), now);
  }
}

// A member that ended with an error is a cause anyway; who just ends would only be missed once the
// others' own time-out is over.
void Job::fail_gathering_if_hopeless(TimePoint now) {
  if (state_ != JobState::running) return;
  for (const std::uint32_t rank : horovod_watch_.missing())
    if (causes_.ended_well(rank))
      return fail(causes_.missed_in_init(rank, membership_, horovod_watch_), now);
}

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
  survey_.answered(host, std::move(message));
  look_into_stalls(now);
  return Errc::ok;
}

void Job::open_survey(const InitWatch* init, TimePoint now) {
  std::set<std::uint32_t> hosts;
  for (const RankRecord& record : membership_.ranks())
    if (record.state != RankState::exited && !hosts_[record.place.host].lost)
      hosts.insert(record.place.host);
  const SurveyRanks question{survey_.open(hosts, now)};
  for (const std::uint32_t host : hosts) to_agent(host, question);
  surveyed_init_ = init;
}

void Job::look_into_stalls(TimePoint now) {
  if (state_ != JobState::running) return;
  if (const auto ranks = survey_.take(now)) {
    if (surveyed_init_ != nullptr) {
      describe_missing(*surveyed_init_, *ranks, now);
    } else {
      judge_stall(*ranks, now);
    }
  }
  if (state_ == JobState::running && !survey_.is_open() && stall_inspector_.take_round(now))
    open_survey(nullptr, now);
}

void Job::judge_stall(const SurveyedRanks& ranks, TimePoint now) {
  const auto [say, stall] = stall_inspector_.judge(ranks, membership_);
  if (say == StallInspector::Say::nothing) return;  // it has come to an end meanwhile
  const bool ends = say == StallInspector::Say::shutdown;
  to_driver(stall_warning(stall, ends, ranks, membership_));
  if (!ends) return;
  JobEnded verdict;
  verdict.cause = EndCause::stalled;
  verdict.exit_code = exit_code::kStalled;
  verdict.text = stall_cause(stall, membership_);
  fail(std::move(verdict), now);
}

void Job::describe_missing(const InitWatch& init, const SurveyedRanks& ranks, TimePoint now) {
  init_watch(now);  // some have come since
  for (const std::string& line : missing_lines(init.missing(), ranks, membership_))
    to_driver(Log{LogLevel::warn, line});
}

}  // namespace hvdrun
