#include "worker/agent/stalls/host_survey.h"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

// Ranks that wait for the same one say so within a moment of each other.
constexpr std::chrono::milliseconds kGathering{100};

}  // namespace

void HostSurvey::reported(std::uint32_t rank, StallReport report, TimePoint now) {
  std::uint64_t age = 0;
  for (const PendingTensor& tensor : report.pending) age = std::max(age, tensor.age_ms);
  if (!notice_) notice_at_ = now + kGathering;
  if (!notice_ || notice_->age_ms < age) notice_ = RankStalled{rank, age};
  said_[rank].report = std::move(report);
}

void HostSurvey::ask(std::uint64_t request, std::set<std::uint32_t> ranks, TimePoint now) {
  request_ = request;
  waiting_ = std::move(ranks);
  answer_by_ = now + limits::kWorkerAnswer;
  for (auto& [rank, said] : said_) said.answered = false;
}

void HostSurvey::answered(std::uint32_t rank, std::uint64_t request, StallReport report) {
  Said& said = said_[rank];
  said.report = std::move(report);
  // A late answer to an older question is news, but not of now.
  said.answered = request_ == request;
  if (said.answered) waiting_.erase(rank);
}

void HostSurvey::gone(std::uint32_t rank) {
  said_.erase(rank);
  waiting_.erase(rank);
  if (notice_ && notice_->rank == rank) notice_.reset();
}

std::optional<RankStalled> HostSurvey::take_notice(TimePoint now) {
  if (!notice_ || now < notice_at_) return std::nullopt;
  return std::exchange(notice_, std::nullopt);
}

std::optional<HostSurvey::Answer> HostSurvey::take_answer(TimePoint now) {
  if (!request_ || (!waiting_.empty() && now < answer_by_)) return std::nullopt;
  Answer answer{*request_, said_};
  request_.reset();
  waiting_.clear();
  return answer;
}

std::optional<TimePoint> HostSurvey::next_deadline() const {
  std::optional<TimePoint> next;
  if (notice_) next = notice_at_;
  if (request_ && (!next || answer_by_ < *next)) next = answer_by_;
  return next;
}

}  // namespace hvdrun
