#include "coordinator/status_board.h"

#include <algorithm>
#include <utility>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

// A host that is stopped or cut off must not keep the answer of the others.
constexpr std::chrono::milliseconds kHostPatience{500};

}  // namespace

std::uint64_t StatusBoard::ask(std::uint64_t asker, std::set<std::uint32_t> hosts, TimePoint now) {
  questions_.push_back({next_request_, asker, std::move(hosts), now + kHostPatience, {}});
  return next_request_++;
}

Errc StatusBoard::answered(std::uint32_t host, const RankProbes& message) {
  if (!std::all_of(message.ranks.begin(), message.ranks.end(),
                   [](const RankProbe& probe) { return within_limits(probe); }))
    return Errc::malformed;
  for (Question& question : questions_) {
    if (question.request != message.request || question.waiting.erase(host) == 0) continue;
    question.probes.insert(question.probes.end(), message.ranks.begin(), message.ranks.end());
  }
  return Errc::ok;
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

void cut_to_limits(JobStatus& status) {
  constexpr std::size_t kNumbers = 64;      // of a rank, with the lengths of its texts
  constexpr std::size_t kWords = 4U << 20;  // of errors and stacks that are told whole
  constexpr std::size_t kFewWords = 40;     // of those behind them, which say the same mostly
  std::size_t bytes = kNumbers;
  for (const std::string& word : status.argv) bytes += word.size() + 4;
  std::size_t words = 0;
  std::size_t hosts = 0;
  std::size_t ranks = 0;
  for (; ranks < std::min(status.ranks.size(), limits::kMaxListItems); ++ranks) {
    RankStatus& rank = status.ranks[ranks];
    words += rank.trouble.size() + rank.probe.stack.size();
    if (words > kWords) rank.probe.stack.clear();
    if (words > kWords && rank.trouble.size() > kFewWords)
      rank.trouble.replace(kFewWords, std::string::npos, " ...");
    bytes += kNumbers + rank.state.size() + rank.trouble.size() + rank.probe.state.size() +
             rank.probe.wait_channel.size() + rank.probe.system_call.size() +
             rank.probe.stack.size();
    const std::size_t known = hosts;
    for (; hosts < status.hosts.size() && hosts <= rank.host; ++hosts)
      bytes += status.hosts[hosts].size() + 4;
    if (bytes <= limits::kMaxStatus) continue;
    hosts = known;
    break;
  }
  status.ranks.resize(ranks);
  status.hosts.resize(hosts);
}

}  // namespace hvdrun
