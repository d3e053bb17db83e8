#include "coordinator/first_cause.h"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/base/rank_ranges.h"

namespace hvdrun {
namespace {

// The time that a rank whose line has ended may take to end itself, before another is blamed.
constexpr std::chrono::milliseconds kPatience{1'000};
// The time until all hosts have told who holds an init up; another question may be under way.
constexpr std::chrono::milliseconds kExplanation = 2 * limits::kSurveyAnswer;

bool is_success(ExitKind kind, std::uint32_t value) {
  return kind == ExitKind::exited && value == 0;
}

}  // namespace

std::uint32_t exit_code_of(ExitKind kind, std::uint32_t value) {
  switch (kind) {
    case ExitKind::exited:
      return value;
    case ExitKind::signaled:
      return exit_code::kSignalBase + value;
    case ExitKind::not_started:
      if (value == ENOENT) return exit_code::kNotFound;
      if (value == EAGAIN || value == ENOMEM || value == EMFILE || value == ENFILE)
        return exit_code::kTryAgain;
      return exit_code::kNotExecutable;
    case ExitKind::lost:
      return exit_code::kHost;
  }
  return exit_code::kInternal;
}

std::string who_never_joined(const InitWatch& init) {
  assert(!init.missing().empty());
  return "rank " + rank_ranges(init.missing(), limits::kMaxNamedRanges) + " never reached " +
         init.call();
}

JobEnded never_joined(std::string who) {
  JobEnded verdict;
  verdict.cause = EndCause::never_joined;
  verdict.exit_code = exit_code::kStall;
  verdict.text = std::move(who);
  return verdict;
}

void FirstCause::trouble(std::uint32_t rank, Errc code, std::string text, const InitWatch* init) {
  if (!ranks_[rank].trouble.empty()) return;  // what came later came of it
  ranks_[rank].code = code;
  ranks_[rank].trouble = std::move(text);
  // Once one has given up, its connections end, and others fail for that. When all others are gone
  // the init is broken off; a rank whose own time was over may say so a moment later.
  const bool of_it =
      init == nullptr ? code == Errc::timeout && wants_explanation()
                      : init->missing().empty() && (code == Errc::timeout || wants_explanation());
  if (of_it) {
    ranks_[rank].unexplained = true;
    ++unexplained_;
  } else if (init != nullptr && code == Errc::timeout && !init->missing().empty()) {
    ranks_[rank].missing = who_never_joined(*init);
  }
}

void FirstCause::own_trouble_follows(std::uint32_t rank) {
  if (ranks_[rank].code != Errc::peer_lost) return;
  ranks_[rank].trouble.clear();
  if (std::exchange(ranks_[rank].unexplained, false)) --unexplained_;
}

std::optional<JobEnded> FirstCause::init_explained(const std::string& who) {
  if (std::exchange(unexplained_, 0) == 0) return std::nullopt;
  for (Rank& rank : ranks_)
    if (std::exchange(rank.unexplained, false)) rank.missing = who;
  if (!suspicion_ || ranks_[suspicion_->rank].missing.empty()) return std::nullopt;
  suspicion_.reset();
  return never_joined(who);
}

void FirstCause::init_opened() {
  if (std::exchange(unexplained_, 0) == 0) return;
  for (Rank& rank : ranks_) rank.unexplained = false;
}

void FirstCause::ended(const RankExited& end) {
  Rank& rank = ranks_[end.rank];
  rank.ended = true;
  rank.kind = end.kind;
  rank.value = end.value;
  rank.out_of_memory = end.out_of_memory;
  rank.detail = end.detail;
  if (!first_well_ && is_success(end.kind, end.value)) first_well_ = end.rank;
}

bool FirstCause::ended_well(std::uint32_t rank) const {
  const Rank& end = ranks_[rank];
  return end.ended && is_success(end.kind, end.value);
}

void FirstCause::lost(std::uint32_t rank) {
  if (ranks_[rank].ended) return;
  ranks_[rank].ended = true;
  ranks_[rank].kind = ExitKind::lost;
}

void FirstCause::restarted(std::uint32_t rank) {
  if (ranks_[rank].unexplained) --unexplained_;
  if (first_well_ == rank) first_well_.reset();
  if (suspicion_ && suspicion_->rank == rank) suspicion_.reset();
  ranks_[rank] = {};
}

void FirstCause::begin_epoch(const std::vector<std::uint32_t>& members) {
  init_opened();
  for (const std::uint32_t member : members) {
    Rank& rank = ranks_[member];
    if (rank.ended) continue;
    rank.code = {};
    rank.trouble.clear();
    rank.missing.clear();
  }
}

JobEnded FirstCause::blame(std::uint32_t rank, const Membership& members) const {
  const Rank& end = ranks_[rank];
  const RankRecord& record = members.ranks()[rank];
  JobEnded verdict;
  verdict.cause = EndCause::rank_failed;
  verdict.exit_code = exit_code_of(end.kind, end.value);
  verdict.rank = rank;
  verdict.pid = record.pid;
  verdict.kind = end.kind;
  verdict.value = end.value;
  verdict.out_of_memory = end.out_of_memory;
  verdict.host = members.hosts()[record.place.host].name;
  verdict.text = end.detail.empty() ? end.trouble : end.detail;
  return verdict;
}

std::optional<JobEnded> FirstCause::judge(std::uint32_t rank, const Membership& members,
                                          TimePoint now) {
  const Rank& end = ranks_[rank];
  if (is_success(end.kind, end.value)) {
    // Those who fail for lack of it are still running, or have just been put off.
    if (!suspicion_) return std::nullopt;
    JobEnded verdict = blame(rank, members);
    verdict.cause = EndCause::early_exit;
    verdict.exit_code = exit_code::kEarlyExit;
    verdict.text = "rank " + std::to_string(suspicion_->rank) + ": " + suspicion_->text;
    suspicion_.reset();
    return verdict;
  }
  if (!end.missing.empty()) return never_joined(end.missing);
  const bool is_asked = suspicion_ && ranks_[suspicion_->rank].unexplained;
  if (end.unexplained) {
    if (is_asked) return std::nullopt;
    suspicion_ = blame(rank, members);
    decide_at_ = now + kExplanation;
    return std::nullopt;
  }
  if (end.code != Errc::peer_lost) {
    suspicion_.reset();
    return blame(rank, members);
  }
  if (is_asked) return std::nullopt;
  // It failed for lack of another. Who ended with 0 before it is that other.
  if (first_well_) {
    JobEnded verdict = blame(*first_well_, members);
    verdict.cause = EndCause::early_exit;
    verdict.exit_code = exit_code::kEarlyExit;
    verdict.text = "rank " + std::to_string(rank) + ": " + end.trouble;
    suspicion_.reset();
    return verdict;
  }
  // A rank that never joined does not use libhvd, so nobody knows whether it is going.
  const bool somebody_is_going =
      members.count(RankState::left) + members.count(RankState::started) > 0;
  if (!somebody_is_going) return blame(rank, members);
  if (!suspicion_) {
    suspicion_ = blame(rank, members);
    decide_at_ = now + kPatience;
  }
  return std::nullopt;
}

std::optional<JobEnded> FirstCause::tick(TimePoint now) {
  if (!suspicion_ || now < decide_at_) return std::nullopt;
  return std::exchange(suspicion_, std::nullopt);
}

std::optional<TimePoint> FirstCause::next_deadline() const {
  if (!suspicion_) return std::nullopt;
  return decide_at_;
}

JobEnded FirstCause::missed_in_init(std::uint32_t rank, const Membership& members,
                                    const InitWatch& init) const {
  assert(!init.waiting().empty());
  JobEnded verdict = blame(rank, members);
  verdict.cause = EndCause::early_exit;
  verdict.exit_code = exit_code::kEarlyExit;
  verdict.text = "waited for in " + init.call() + " by rank " +
                 rank_ranges(init.waiting(), limits::kMaxNamedRanges);
  return verdict;
}

std::vector<Victims> FirstCause::victims(std::optional<std::uint32_t> except) const {
  std::vector<Victims> groups;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& end = ranks_[rank];
    if (!end.ended || rank == except) continue;
    // As many groups of one kind as it takes: a list in a message has its limit.
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Victims& known) {
      return known.kind == end.kind && known.value == end.value &&
             known.ranks.size() < limits::kMaxListItems;
    });
    if (group == groups.end()) group = groups.insert(group, Victims{end.kind, end.value, {}});
    group->ranks.push_back(rank);
  }
  return groups;
}

}  // namespace hvdrun
