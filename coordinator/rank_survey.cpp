#include "coordinator/rank_survey.h"

#include <cassert>
#include <utility>

namespace hvdrun {

std::uint64_t RankSurvey::open(About about, std::set<std::uint32_t> hosts, TimePoint now) {
  assert(!open_);
  open_ = true;
  about_ = about;
  waiting_ = std::move(hosts);
  deadline_ = now + limits::kSurveyAnswer;
  ranks_.clear();
  return ++request_;
}

void RankSurvey::answered(std::uint32_t host, RankPictures message) {
  if (!open_ || message.request != request_ || waiting_.erase(host) == 0) return;
  for (RankPicture& rank : message.ranks) {
    const std::uint32_t number = rank.probe.rank;
    ranks_.insert_or_assign(number, std::move(rank));
  }
}

std::optional<SurveyedRanks> RankSurvey::take(TimePoint now) {
  if (!open_ || (!waiting_.empty() && now < deadline_)) return std::nullopt;
  open_ = false;
  return std::exchange(ranks_, {});
}

std::optional<TimePoint> RankSurvey::next_deadline() const {
  if (!open_) return std::nullopt;
  return deadline_;
}

}  // namespace hvdrun
