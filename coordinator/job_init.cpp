// Waits in an init. In libhvd's they last from the moment a rank has joined, through the meeting of
// the hosts and their connections, until the fence opens. Of Horovod's the store tells.
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
  const auto release = init_.enter(message, now, fault);
  if (fault != Errc::ok) return fault;
  if (release) {
    causes_.init_opened();
    to_agents(*release);
    if (elastic_) {
      if (elastic_->opened(now)) first_loss_.reset();
      carry_out(now);
    }
  }
  fail_init_if_hopeless(now);
  return Errc::ok;
}

void Job::fail_init_if_hopeless(TimePoint now) {
  if (init_.is_empty() || membership_.exited() == 0 || state_ == JobState::ended) return;
  if (goes_on()) return;  // they have been told of each loss
  if (state_ == JobState::running && !init_.is_hopeless(membership_.exited(), now)) return;
  const auto& ranks = membership_.ranks();
  const auto gone = std::find_if(ranks.begin(), ranks.end(), [this](const RankRecord& record) {
    return record.state == RankState::exited && init_.knows(record.place.rank);
  });
  if (gone == ranks.end()) return;
  // A rank that fails exits with an error. One that just ends is as much to blame, and nobody would
  // say so.
  if (state_ == JobState::running && causes_.ended_well(gone->place.rank))
    fail(causes_.missed_in_init(gone->place.rank, membership_, init_.watch(now)), now);
  if (const auto failed = init_.break_off(gone->place.rank, now)) to_agents(*failed);
}

void Job::horovod_gathering(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
                            TimePoint now) {
  horovod_watch_.update(std::move(waiting), std::move(missing), now);
  fail_gathering_if_hopeless(now);
  end_if_done(now);
}

// The init that the rank waits in.
const InitWatch* Job::init_of(std::uint32_t rank, TimePoint now) {
  if (init_.is_here(rank)) return &init_.watch(now);
  const auto& waiting = horovod_watch_.waiting();
  return std::binary_search(waiting.begin(), waiting.end(), rank) ? &horovod_watch_ : nullptr;
}

void Job::tick_init_watch(InitWatch& watch, TimePoint now) {
  const InitWatch::Say say = watch.tick(now);
  if (say == InitWatch::Say::nothing) return;
  const bool ends = say == InitWatch::Say::too_long;
  if (watch.missing().empty()) {
    if (say == InitWatch::Say::look)
      init_.doubt().ahead = true;
    else if (ends)
      init_.doubt().end = true;
    else if (!init_.doubt().warning)
      init_.doubt().warning = now;
    return look_into_stalls(now);
  }
  if (ends && goes_on()) return end_hanging(watch.missing(), who_never_joined(watch));
  if (ends) return fail(never_joined(who_never_joined(watch)), now);
  if (say == InitWatch::Say::look) return;
  to_driver(Log{LogLevel::warn, watch.warning(now)});
  // Before its next warning it is over, and an operation that waits can wait for that.
  if (survey_.is_open()) return;
  using About = RankSurvey::About;
  open_survey(&watch == &horovod_watch_ ? About::missing_in_horovod : About::missing_in_init, now);
}

// A member that ended with an error is a cause anyway; who just ends would only be missed once the
// others' own time-out is over.
void Job::fail_gathering_if_hopeless(TimePoint now) {
  if (state_ != JobState::running || goes_on()) return;
  for (const std::uint32_t rank : horovod_watch_.missing())
    if (causes_.ended_well(rank))
      return fail(causes_.missed_in_init(rank, membership_, horovod_watch_), now);
}

// They have the others wait for ever: as good as lost.
void Job::end_hanging(const std::vector<std::uint32_t>& ranks, const std::string& why) {
  to_driver(Log{LogLevel::warn, why + "; " + (ranks.size() == 1 ? "it is" : "they are") +
                                    " killed, and the others go on"});
  for (const std::uint32_t rank : ranks)
    if (rank < membership_.order().size()) end_slot(membership_.order()[rank]);
}

void Job::describe_missing(const InitWatch& init, const SurveyedRanks& ranks) {
  for (const std::string& line : missing_lines(init.missing(), ranks, membership_.in_ranks()))
    to_driver(Log{LogLevel::warn, line});
}

// The ranks' own words, in answer to all doubts.
void Job::judge_init(const SurveyedRanks& ranks, TimePoint now) {
  const InitDoubt doubt = std::exchange(init_.doubt(), {});
  if (!doubt.any()) return;  // the fence has opened meanwhile
  std::vector<std::uint32_t> outside;
  for (const std::uint32_t rank : init_.here()) {
    const std::uint32_t slot = membership_.order()[rank];
    if (!init_.is_inside(slot) && causes_.trouble_of(slot).empty()) outside.push_back(rank);
  }
  const Membership members = membership_.in_ranks();
  const InitHang hang = find_init_hang(init_.inside(), outside, ranks, members.size());
  const bool knows = !hang.ranks.empty() || !hang.links.empty();
  const std::string cause = init_hang_cause(hang, members);
  // A rank that hangs stays, and can be asked again.
  if (!hang.links.empty()) init_.set_known_links(cause);
  InitWatch& watch = init_.watch(now);
  const bool somebody_waits = hang.waiting > 0;
  if (doubt.warning && knows && somebody_waits) {
    to_driver(
        Log{LogLevel::warn, watch.warning(hang.waiting, init_hang_words(hang), *doubt.warning)});
    for (const std::string& line : init_hang_lines(hang, ranks, members))
      to_driver(Log{LogLevel::warn, line});
  }
  const std::string& why = knows ? cause : init_.known_links();
  if (doubt.cause && !why.empty())
    if (auto verdict = causes_.init_explained(why)) return fail(std::move(*verdict), now);
  if (!doubt.end || watch.waiting().empty()) return;
  // Where each is busy with something of its own nobody has waited yet.
  if (!somebody_waits) return watch.begin_again(now);
  if (goes_on() && knows) return end_hanging(init_hang_culprits(hang), cause);
  if (!watch.missing().empty()) return fail(never_joined(who_never_joined(watch)), now);
  // Where nobody hangs it is for those that were here, and have left, if anybody has.
  const std::vector<std::uint32_t> gone = init_.were_here();
  fail(never_joined(knows || gone.empty()
                        ? cause
                        : "rank " + rank_ranges(gone, limits::kMaxNamedRanges) + " left hvd::init"),
       now);
}

}  // namespace hvdrun
