// Who waits for whom in an init: in libhvd's from the moment a rank has joined, through the meeting
// of the hosts and their connections, until the fence opens; in Horovod's by its store.
#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/limits.h"
#include "common/base/rank_ranges.h"
#include "coordinator/init_hang.h"
#include "coordinator/job.h"
#include "coordinator/stall_text.h"

namespace hvdrun {

Errc Job::on_fence_enter(std::uint32_t host, const Frame& frame, TimePoint now) {
  FenceEnter message;
  if (decode(frame.payload, message)) return Errc::malformed;
  for (const std::uint32_t rank : message.ranks)
    if (!membership_.owns(host, rank)) return Errc::malformed;
  Errc fault = Errc::ok;
  const auto release = fence_.enter(message, fault);
  if (fault != Errc::ok) return fault;
  if (release) {
    meeting_.opened();
    causes_.init_opened();
    known_links_.clear();
    doubt_ = {};
    to_agents(*release);
  } else {
    for (const std::uint32_t rank : message.ranks) meeting_.came(rank);
  }
  watch_init(now);
  fail_init_if_hopeless(now);
  return Errc::ok;
}

void Job::fail_init_if_hopeless(TimePoint now) {
  if (meeting_.count() == 0 || membership_.exited() == 0 || state_ == JobState::ended) return;
  if (state_ == JobState::running && !meeting_.is_hopeless(membership_.exited(), now)) return;
  const auto& ranks = membership_.ranks();
  const auto gone = std::find_if(ranks.begin(), ranks.end(), [](const RankRecord& record) {
    return record.state == RankState::exited;
  });
  // Who fails exits with an error; who just ends is as much to blame, and nobody would say so.
  if (state_ == JobState::running && causes_.ended_well(gone->place.rank))
    fail(causes_.missed_in_init(gone->place.rank, membership_, init_watch(now)), now);
  if (fence_.count() == 0) return;
  const std::vector<std::uint32_t> came = meeting_.gone();
  const bool was_inside = std::binary_search(came.begin(), came.end(), gone->place.rank);
  to_agents(FenceFailed{fence_.number(), "rank " + std::to_string(gone->place.rank) +
                                             (was_inside ? " ended in hvd::init()"
                                                         : " ended before it called hvd::init()")});
  for (const std::uint32_t rank : fence_.waiting()) meeting_.left(rank);
  fence_.withdraw_all();
  watch_init(now);
}

void Job::watch_init(TimePoint now) {
  init_watch_is_old_ = meeting_.count() > 0 && !init_watch_.waiting().empty();
  if (init_watch_is_old_) return;
  if (meeting_.count() > 0) return init_watch_.update(meeting_.here(), meeting_.absent(), now);
  init_watch_.update({}, {}, now);
  // Those who have given up may all be gone, and why is asked all the same.
  const bool cause = doubt_.cause;
  doubt_ = {};
  doubt_.cause = cause;
}

// Who waits for whom is counted when somebody asks: after each rank that comes that would cost
// ranks x ranks.
InitWatch& Job::init_watch(TimePoint now) {
  if (std::exchange(init_watch_is_old_, false))
    init_watch_.update(meeting_.here(), meeting_.absent(), now);
  return init_watch_;
}

void Job::horovod_gathering(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
                            TimePoint now) {
  horovod_watch_.update(std::move(waiting), std::move(missing), now);
  fail_gathering_if_hopeless(now);
  end_if_done(now);
}

// The init that the rank waits in.
const InitWatch* Job::init_of(std::uint32_t rank, TimePoint now) {
  if (meeting_.is_here(rank)) return &init_watch(now);
  const auto& waiting = horovod_watch_.waiting();
  return std::binary_search(waiting.begin(), waiting.end(), rank) ? &horovod_watch_ : nullptr;
}

void Job::tick_init_watch(InitWatch& watch, TimePoint now) {
  const InitWatch::Say say = watch.tick(now);
  if (say == InitWatch::Say::nothing) return;
  const bool ends = say == InitWatch::Say::too_long;
  if (watch.missing().empty()) {
    if (say == InitWatch::Say::look)
      doubt_.ahead = true;
    else if (ends)
      doubt_.end = true;
    else if (!doubt_.warning)
      doubt_.warning = now;
    return look_into_stalls(now);
  }
  if (ends) return fail(never_joined(who_never_joined(watch)), now);
  if (say == InitWatch::Say::look) return;
  to_driver(Log{LogLevel::warn, watch.warning(now)});
  // Before its next warning it is over, and an operation that waits can wait for that.
  if (survey_.is_open()) return;
  surveyed_init_ = &watch;
  open_survey(SurveyFor::missing_in_init, now);
}

// A member that ended with an error is a cause anyway; who just ends would only be missed once the
// others' own time-out is over.
void Job::fail_gathering_if_hopeless(TimePoint now) {
  if (state_ != JobState::running) return;
  for (const std::uint32_t rank : horovod_watch_.missing())
    if (causes_.ended_well(rank))
      return fail(causes_.missed_in_init(rank, membership_, horovod_watch_), now);
}

void Job::describe_missing(const InitWatch& init, const SurveyedRanks& ranks, TimePoint now) {
  init_watch(now);  // some have come since
  for (const std::string& line : missing_lines(init.missing(), ranks, membership_))
    to_driver(Log{LogLevel::warn, line});
}

// What the ranks say of themselves, in answer to all doubts.
void Job::judge_init(const SurveyedRanks& ranks, TimePoint now) {
  const InitDoubt doubt = std::exchange(doubt_, {});
  if (!doubt.any()) return;  // the fence has opened meanwhile
  std::vector<std::uint32_t> outside;
  for (const std::uint32_t rank : meeting_.here())
    if (!fence_.is_inside(rank) && causes_.trouble_of(rank).empty()) outside.push_back(rank);
  const InitHang hang = find_init_hang(fence_.waiting(), outside, ranks, membership_.size());
  const bool knows = !hang.ranks.empty() || !hang.links.empty();
  const std::string cause = init_hang_cause(hang, membership_);
  // All ends of a connection that does not come up may be gone when the first says that its time
  // was over. A rank that hangs stays.
  if (!hang.links.empty()) known_links_ = cause;
  InitWatch& watch = init_watch(now);
  const bool somebody_waits = hang.waiting > 0;
  if (doubt.warning && knows && somebody_waits) {
    to_driver(
        Log{LogLevel::warn, watch.warning(hang.waiting, init_hang_words(hang), *doubt.warning)});
    for (const std::string& line : init_hang_lines(hang, ranks, membership_))
      to_driver(Log{LogLevel::warn, line});
  }
  const std::string& why = knows ? cause : known_links_;
  if (doubt.cause && !why.empty())
    if (auto verdict = causes_.init_explained(why)) return fail(std::move(*verdict), now);
  if (!doubt.end || watch.waiting().empty()) return;
  // Where each is busy with something of its own nobody has waited yet.
  if (!somebody_waits) return watch.begin_again(now);
  if (!watch.missing().empty()) return fail(never_joined(who_never_joined(watch)), now);
  // Where nobody hangs it is for those that were here, and have left, if anybody has.
  const std::vector<std::uint32_t> gone = meeting_.gone();
  fail(never_joined(knows || gone.empty()
                        ? cause
                        : "rank " + rank_ranges(gone, limits::kMaxNamedRanges) + " left hvd::init"),
       now);
}

}  // namespace hvdrun
