#include "cli/run/job_report.h"

#include <algorithm>
#include <cstdio>
#include <signal.h>
#include <string_view>

#include "common/base/exit_code.h"
#include "common/base/rank_ranges.h"
#include "common/process/signal_words.h"

namespace hvdrun {
namespace {

std::string seconds(std::uint64_t ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 10'000 ? "%.2f s" : "%.1f s",
                static_cast<double>(ms) / 1000);
  return text;
}

const char* word_of(const JobEnded& verdict) { return verdict.by_slot ? "slot " : "rank "; }

std::string who(const JobEnded& verdict) {
  std::string text = word_of(verdict) + std::to_string(verdict.rank) + " on " + verdict.host;
  if (verdict.pid != 0) text += " (pid " + std::to_string(verdict.pid) + ")";
  return text;
}

std::string how(const JobEnded& verdict) {
  switch (verdict.kind) {
    case ExitKind::exited:
      return "exited with code " + std::to_string(verdict.value);
    case ExitKind::signaled:
      return "was killed by " + signal_text(verdict.value) +
             (verdict.out_of_memory ? ": the machine ran out of memory (OOM killer)" : "");
    case ExitKind::not_started:
      return "could not start: " + verdict.text;
    case ExitKind::lost:
      return "was lost with its host";
  }
  return "failed";
}

// There may be several groups of one kind, as a message has its limits.
std::vector<Victims> joined(const std::vector<Victims>& groups) {
  std::vector<Victims> all;
  for (const Victims& group : groups) {
    const auto same = std::find_if(all.begin(), all.end(), [&](const Victims& known) {
      return known.kind == group.kind && known.value == group.value;
    });
    if (same == all.end()) {
      all.push_back(group);
    } else {
      same->ranks.insert(same->ranks.end(), group.ranks.begin(), group.ranks.end());
    }
  }
  return all;
}

std::string victims_line(const JobEnded& verdict) {
  std::string text;
  for (const Victims& group : joined(verdict.victims)) {
    text += (text.empty() ? "" : "; ") + std::string(word_of(verdict));
    text += rank_ranges(group.ranks);
    switch (group.kind) {
      case ExitKind::exited:
        text += " exited with code " + std::to_string(group.value);
        break;
      case ExitKind::signaled:
        text += " ended by " + signal_text(group.value);
        break;
      case ExitKind::not_started:
        text += " could not start";
        break;
      case ExitKind::lost:
        text += " lost";
        break;
    }
  }
  return text;
}

}  // namespace

std::string describe_cause(const JobEnded& verdict) {
  const std::string after = " after " + seconds(verdict.after_ms);
  switch (verdict.cause) {
    case EndCause::success:
      return "";
    case EndCause::rank_failed:
      if (verdict.kind == ExitKind::not_started) return who(verdict) + " " + how(verdict);
      return who(verdict) + " " + how(verdict) + after;
    case EndCause::host_lost:
      return "host " + verdict.host + " was lost" + after + ": " + verdict.text;
    case EndCause::aborted:
      return "ended by " + signal_text(verdict.value) + after;
    case EndCause::start_timeout:
      return "these hosts did not come up in time: " + verdict.text +
             "; --start-timeout gives them longer";
    case EndCause::early_exit:
      return who(verdict) + " exited with code 0" + after + ", but others still needed it";
    case EndCause::never_joined:
      return verdict.text + "; the others waited there, and the job was ended" + after;
    case EndCause::stalled:
      return "the job was ended" + after + " because " + verdict.text;
    case EndCause::too_few_ranks:
    case EndCause::too_many_resets:
      return verdict.text + "; the job was ended" + after;
    case EndCause::timeout:
      return "the job was ended because its time (--timeout) was over" + after;
    case EndCause::not_startable: {
      std::string text = verdict.text;
      for (auto at = text.find('\n'); at != text.npos; at = text.find('\n', at))
        text.replace(at, 1, "; ");
      return text + "; nothing was started";
    }
  }
  return "the job ended for an unknown reason";
}

std::set<std::uint32_t> lost_hosts(const JobEnded& verdict, const RankTable& ranks) {
  std::set<std::uint32_t> hosts;
  for (const Victims& group : verdict.victims) {
    if (group.kind != ExitKind::lost) continue;
    for (const std::uint32_t rank : group.ranks)
      if (rank < ranks.size()) hosts.insert(ranks[rank].host);
  }
  return hosts;
}

std::vector<std::string> describe_failure(const JobEnded& verdict,
                                          const std::vector<std::string>& last_lines) {
  if (verdict.cause == EndCause::success) return {};
  // As in `| head`: whoever reads no more has what they wanted, and other programs end silently.
  if (verdict.cause == EndCause::aborted && verdict.value == SIGPIPE) return {};
  if (verdict.cause == EndCause::not_startable) {
    std::vector<std::string> lines;
    for (std::string_view text = verdict.text; !text.empty();) {
      const auto end = std::min(text.find('\n'), text.size());
      lines.emplace_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    lines.emplace_back("nothing was started");
    return lines;
  }
  std::vector<std::string> lines{describe_cause(verdict)};
  const bool has_reason =
      (verdict.cause == EndCause::rank_failed && verdict.kind != ExitKind::not_started) ||
      verdict.cause == EndCause::early_exit;
  if (has_reason && !verdict.text.empty()) lines.push_back("  because " + verdict.text);
  if (verdict.cause == EndCause::rank_failed && verdict.kind == ExitKind::exited &&
      exit_code::is_own(static_cast<int>(verdict.value)))
    lines.push_back("  (that " + std::to_string(verdict.value) +
                    " is the program's own code, not one of hvdrun)");
  if (!last_lines.empty()) {
    lines.emplace_back("  its last lines on stderr:");
    for (const std::string& line : last_lines) lines.push_back("  | " + line);
  }
  if (!verdict.victims.empty()) lines.push_back("  then " + victims_line(verdict));
  return lines;
}

}  // namespace hvdrun
