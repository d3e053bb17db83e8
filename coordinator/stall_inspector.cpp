#include "coordinator/stall_inspector.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

bool is_over(std::uint64_t age_ms, milliseconds limit) {
  return limit.count() > 0 && age_ms >= static_cast<std::uint64_t>(limit.count());
}

struct Waiting {
  std::uint64_t age_ms = 0;
  std::uint64_t others = 0;
  std::vector<std::uint32_t> ranks;  // in order
};

// By tensor. Only what a rank says of now counts: an operation of before may be done.
std::unordered_map<std::string_view, Waiting> gather(const SurveyedRanks& ranks) {
  std::unordered_map<std::string_view, Waiting> tensors;
  for (const auto& [rank, picture] : ranks) {
    if (!picture.answered) continue;
    for (const PendingTensor& tensor : picture.report.pending) {
      Waiting& waiting = tensors[tensor.name];
      waiting.age_ms = std::max(waiting.age_ms, tensor.age_ms);
      waiting.others = std::max(waiting.others, picture.report.pending_count - 1);
      // The same name may wait twice.
      if (waiting.ranks.empty() || waiting.ranks.back() != rank) waiting.ranks.push_back(rank);
    }
  }
  return tensors;
}

bool names_not_all(const SurveyedRanks& ranks, std::uint32_t rank) {
  const auto found = ranks.find(rank);
  return found != ranks.end() && found->second.answered &&
         found->second.report.pending_count > found->second.report.pending.size();
}

// Into `stall`, which has those that wait.
void add_others(Stall& stall, const SurveyedRanks& ranks, const Membership& members) {
  auto waiting = stall.waiting.begin();
  for (std::uint32_t rank = 0; rank < members.size(); ++rank) {
    if (waiting != stall.waiting.end() && *waiting == rank) {
      ++waiting;
    } else if (names_not_all(ranks, rank)) {
      stall.too_many.push_back(rank);
    } else {
      stall.missing.push_back(rank);
    }
  }
}

}  // namespace

std::optional<Stall> find_stall(const SurveyedRanks& ranks, const Membership& members,
                                milliseconds at_least) {
  const auto tensors = gather(ranks);
  const auto limit = static_cast<std::uint64_t>(at_least.count());
  std::vector<std::pair<std::string_view, const Waiting*>> old;
  for (const auto& [name, waiting] : tensors)
    if (waiting.age_ms >= limit) old.emplace_back(name, &waiting);
  if (old.empty()) return std::nullopt;
  // What everybody has submitted is under way; it may itself wait for what is missing somewhere.
  const auto comes_first = [&members](const auto& a, const auto& b) {
    const bool a_complete = a.second->ranks.size() == members.size();
    const bool b_complete = b.second->ranks.size() == members.size();
    if (a_complete != b_complete) return b_complete;
    if (a.second->age_ms != b.second->age_ms) return a.second->age_ms > b.second->age_ms;
    return a.first < b.first;
  };
  const auto& [name, waiting] = *std::min_element(old.begin(), old.end(), comes_first);
  Stall stall;
  stall.tensor = name;
  stall.age_ms = waiting->age_ms;
  stall.others = waiting->others;
  stall.waiting = waiting->ranks;
  add_others(stall, ranks, members);
  return stall;
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
