#include "coordinator/status_board.h"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

// A host that is stopped or cut off must not keep the answer of the others.
constexpr std::chrono::milliseconds kHostPatience{500};

}  // namespace

std::uint64_t StatusBoard::ask(std::uint64_t asker, std::set<std::uint32_t> hosts, TimePoint now) {
  questions_.push_back({next_request_, asker, std::move(hosts), now + kHostPatience, {}});
  return next_request_++;
}

void StatusBoard::answered(std::uint32_t host, const RankProbes& message) {
  for (Question& question : questions_) {
    if (question.request != message.request || question.waiting.erase(host) == 0) continue;
    question.probes.insert(question.probes.end(), message.ranks.begin(), message.ranks.end());
  }
}

void StatusBoard::forget_host(std::uint32_t host) {
  for (Question& question : questions_) question.waiting.erase(host);
}

std::vector<StatusBoard::Answer> StatusBoard::take_ready(TimePoint now) {
  std::vector<Answer> ready;
  std::erase_if(questions_, [&](Question& question) {
    if (!question.waiting.empty() && now < question.deadline) return false;
    ready.push_back({question.asker, std::move(question.probes)});
    return true;
  });
  return ready;
}

std::optional<TimePoint> StatusBoard::next_deadline() const {
  std::optional<TimePoint> next;
  for (const Question& question : questions_)
    if (!next || question.deadline < *next) next = question.deadline;
  return next;
}

void add_probes(JobStatus& status, const std::vector<RankProbe>& probes) {
  for (const RankProbe& probe : probes)
    if (probe.rank < status.ranks.size() && status.ranks[probe.rank].probe.pid == probe.pid)
      status.ranks[probe.rank].probe = probe;
}

}  // namespace hvdrun
