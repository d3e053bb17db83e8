#include "coordinator/host_checks.h"

#include <algorithm>
#include <utility>

#include "common/base/exit_code.h"
#include "common/base/limits.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr std::size_t kNamedHosts = 8;  // of one problem
constexpr std::size_t kLines = 8;       // problems told

}  // namespace

HostChecks::HostChecks(std::vector<bool> wanted)
    : wanted_(std::move(wanted)), states_(wanted_.size(), State::unasked) {}

void HostChecks::ask(std::uint32_t host) {
  states_[host] = State::asked;
  ++waiting_;
}

bool HostChecks::waits_for(std::uint32_t host) const {
  return host < states_.size() && states_[host] == State::asked;
}

Errc HostChecks::answer(std::uint32_t host, const LaunchChecked& message) {
  if (!waits_for(host)) return Errc::unexpected_message;
  const auto code = static_cast<int>(message.exit_code);
  if (code != exit_code::kOk && code != exit_code::kUsage && code != exit_code::kNotExecutable &&
      code != exit_code::kNotFound)
    return Errc::malformed;
  if (message.text.size() > limits::kMaxTrouble) return Errc::limit_exceeded;
  states_[host] = State::answered;
  --waiting_;
  if (code != exit_code::kOk) problems_.push_back({host, message});
  return Errc::ok;
}

std::optional<JobEnded> HostChecks::verdict(const std::vector<HostSlots>& hosts) const {
  if (problems_.empty()) return std::nullopt;
  std::vector<Problem> problems = problems_;
  std::sort(problems.begin(), problems.end(),
            [](const Problem& a, const Problem& b) { return a.host < b.host; });
  struct Line {
    const std::string* text;
    std::vector<std::uint32_t> hosts;
  };
  std::vector<Line> lines;
  for (const Problem& problem : problems) {
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return *line.text == problem.message.text;
    });
    if (same != lines.end()) {
      same->hosts.push_back(problem.host);
    } else if (lines.size() < kLines) {
      lines.push_back({&problem.message.text, {problem.host}});
    }
  }
  JobEnded verdict;
  verdict.cause = EndCause::not_startable;
  verdict.exit_code = problems.front().message.exit_code;
  verdict.host = hosts[problems.front().host].name;
  std::size_t told = 0;
  for (const Line& line : lines) {
    if (!verdict.text.empty()) verdict.text += '\n';
    verdict.text += line.hosts.size() == 1 ? "host " : "hosts ";
    for (std::size_t i = 0; i < std::min(kNamedHosts, line.hosts.size()); ++i)
      verdict.text += (i == 0 ? "" : ", ") + hosts[line.hosts[i]].name;
    if (line.hosts.size() > kNamedHosts)
      verdict.text += " and " + std::to_string(line.hosts.size() - kNamedHosts) + " more";
    verdict.text += ": " + printable(*line.text, limits::kMaxTrouble);
    told += line.hosts.size();
  }
  if (told < problems.size())
    verdict.text +=
        "\nand " + std::to_string(problems.size() - told) + " hosts have other problems";
  return verdict;
}

}  // namespace hvdrun
