#include "coordinator/stall_inspector.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMostAlso = 4;

bool is_over(std::uint64_t age_ms, milliseconds limit) {
  return limit.count() > 0 && age_ms >= static_cast<std::uint64_t>(limit.count());
}

struct Waiting {
  std::uint64_t age_ms = 0;
  std::uint64_t others = 0;
  std::vector<std::uint32_t> ranks;  // in order
};

// A name, and whom it is for: two process sets may use one name. Empty: all ranks.
using Key = std::pair<std::string_view, std::vector<std::uint32_t>>;

// Only what a rank says of now counts: an operation of before may be done.
std::map<Key, Waiting> gather(const SurveyedRanks& ranks) {
  std::map<Key, Waiting> tensors;
  for (const auto& [rank, picture] : ranks) {
    if (!picture.answered) continue;
    for (const PendingTensor& tensor : picture.report.pending) {
      Waiting& waiting = tensors[{tensor.name, tensor.ranks}];
      waiting.age_ms = std::max(waiting.age_ms, tensor.age_ms);
      waiting.others = std::max(waiting.others, picture.report.pending_count - 1);
      // The same name may wait twice.
      if (waiting.ranks.empty() || waiting.ranks.back() != rank) waiting.ranks.push_back(rank);
    }
  }
  return tensors;
}

bool names_not_all(const RankPicture& picture) {
  return picture.answered && picture.report.pending_count > picture.report.pending.size();
}

// An operation's stall: who waits for it, and who is missing.
Stall describe_stall(const Key& key, const Waiting& waiting, const SurveyedRanks& ranks,
                     const Membership& members) {
  Stall stall;
  stall.tensor = key.first;
  stall.age_ms = waiting.age_ms;
  stall.others = waiting.others;
  stall.waiting = waiting.ranks;
  stall.of_set = !key.second.empty();
  const auto place = [&](std::uint32_t rank) {
    if (std::binary_search(waiting.ranks.begin(), waiting.ranks.end(), rank)) return;
    const auto found = ranks.find(rank);
    if (found != ranks.end() && names_not_all(found->second)) {
      stall.too_many.push_back(rank);
    } else if (found != ranks.end() && found->second.answered && found->second.report.in_join &&
               !stall.of_set) {
      // It takes part by itself; only of a set's operations it can be missing, as nobody joins one.
      stall.in_join.push_back(rank);
    } else {
      stall.missing.push_back(rank);
    }
  };
  if (stall.of_set) {
    // A peer's words about a set may name ranks that are not there.
    for (const std::uint32_t rank : key.second)
      if (rank < members.size()) place(rank);
  } else {
    for (std::uint32_t rank = 0; rank < members.size(); ++rank) place(rank);
  }
  return stall;
}

}  // namespace

std::optional<Stall> find_stall(const SurveyedRanks& ranks, const Membership& members,
                                milliseconds at_least) {
  const auto limit = static_cast<std::uint64_t>(at_least.count());
  std::optional<Stall> first;
  // An operation that everybody has submitted is under way; it may itself wait for what is missing
  // somewhere.
  const auto is_complete = [](const Stall& stall) {
    return stall.missing.empty() && stall.too_many.empty();
  };
  const auto comes_first = [&](const Stall& a, const Stall& b) {
    if (is_complete(a) != is_complete(b)) return is_complete(b);
    if (a.age_ms != b.age_ms) return a.age_ms > b.age_ms;
    return a.tensor < b.tensor;
  };
  std::vector<Stall> others;
  const auto tensors = gather(ranks);
  for (const auto& [key, waiting] : tensors) {
    if (waiting.age_ms < limit / 2) continue;
    Stall stall = describe_stall(key, waiting, ranks, members);
    if (waiting.age_ms >= limit && (!first || comes_first(stall, *first))) {
      if (first) others.push_back(std::move(*first));
      first = std::move(stall);
    } else {
      others.push_back(std::move(stall));
    }
  }
  if (!first) return {};
  std::sort(others.begin(), others.end(), comes_first);
  std::set<std::vector<std::uint32_t>> told{first->missing};
  for (Stall& stall : others) {
    if (stall.missing.empty() || !told.insert(stall.missing).second) continue;
    if (first->also.size() < kMostAlso)
      first->also.push_back(std::move(stall));
    else
      ++first->more;
  }
  return first;
}

void StallInspector::noticed(std::uint64_t age_ms, TimePoint now) {
  TimePoint at = now;
  if (!is_over(age_ms, shutdown_)) {
    if (!is_over(age_ms, warning_)) return;
    // Others of the same stall speak up a moment later, and again before the time is over.
    if (last_round_) at = std::max(at, *last_round_ + warning_);
  }
  round_at_ = round_at_ ? std::min(*round_at_, at) : at;
}

bool StallInspector::take_round(TimePoint now) {
  if (!round_at_ || now < *round_at_) return false;
  round_at_.reset();
  last_round_ = now;
  return true;
}

StallInspector::Verdict StallInspector::judge(const SurveyedRanks& ranks,
                                              const Membership& members) const {
  for (const auto& [limit, say] :
       {std::pair(shutdown_, Say::shutdown), std::pair(warning_, Say::warning)}) {
    if (limit.count() == 0) continue;
    if (auto stall = find_stall(ranks, members, limit)) return {say, std::move(*stall)};
  }
  return {};
}

std::optional<TimePoint> StallInspector::next_deadline() const { return round_at_; }

}  // namespace hvdrun
