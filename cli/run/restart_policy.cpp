#include "cli/run/restart_policy.h"

#include <algorithm>
#include <array>

#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{1'000};
constexpr milliseconds kLongestPause{60'000};
// A job that has run so long was sound, and its next failure is another matter.
constexpr milliseconds kSound{600'000};
// A failure that comes sooner each time, and in the same way, is one of the start.
constexpr milliseconds kSoon{30'000};
constexpr std::uint32_t kSameFailures = 3;

// Another start ends in the same way: bad input, no such program. 93 is what programs end with that
// do not want to be started again.
constexpr auto kFinalCodes = std::to_array<std::uint32_t>(
    {exit_code::kUsage, 93, exit_code::kNotExecutable, exit_code::kNotFound});

bool is_final(EndCause cause, bool is_first) {
  switch (cause) {
    case EndCause::success:
    case EndCause::aborted:
    case EndCause::timeout:
    case EndCause::too_many_resets:
      return true;
    // Hosts that have never come up, and programs that were never there, may be written wrongly.
    case EndCause::not_startable:
    case EndCause::start_timeout:
      return is_first;
    case EndCause::rank_failed:
    case EndCause::host_lost:
    case EndCause::early_exit:
    case EndCause::never_joined:
    case EndCause::stalled:
    case EndCause::too_few_ranks:
      return false;
  }
  return true;
}

std::string times(std::uint32_t count) {
  return std::to_string(count) + (count == 1 ? " time" : " times");
}

std::string in_seconds(milliseconds time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

void RestartPolicy::note(const JobEnded& verdict, milliseconds ran) {
  RestartHistory& last = history_;
  // All ranks fail alike, and any of them may be the first.
  const std::string host = verdict.cause == EndCause::host_lost ? verdict.host : "";
  const bool is_same = last.cause == verdict.cause && last.kind == verdict.kind &&
                       last.value == verdict.value && last.host == host;
  last.same = ran >= kSoon ? 0 : is_same ? last.same + 1 : 1;
  last.cause = verdict.cause;
  last.kind = verdict.kind;
  last.value = verdict.value;
  last.host = host;
}

RestartPolicy::Decision RestartPolicy::on_failure(const JobEnded& verdict, milliseconds ran) {
  std::uint32_t& restarts = history_.restarts;
  if (limits_.restarts == 0 || is_final(verdict.cause, restarts == 0)) return {};
  if (verdict.cause == EndCause::rank_failed &&
      std::find(kFinalCodes.begin(), kFinalCodes.end(), verdict.exit_code) != kFinalCodes.end())
    return {std::nullopt, "it is not started again, as code " + std::to_string(verdict.exit_code) +
                              " would come again"};
  note(verdict, ran);
  if (history_.same == kSameFailures)
    return {std::nullopt, "it is not started again, as it has failed in the same way " +
                              times(kSameFailures) + ", each within " + in_seconds(kSoon)};
  if (restarts >= limits_.restarts)
    return {std::nullopt, "it is not started again, as it was " + times(restarts) +
                              " (--max-restarts " + std::to_string(limits_.restarts) + ")"};
  const milliseconds before(history_.pause_ms);
  const milliseconds pause =
      ran >= kSound || before == milliseconds{} ? kFirstPause : std::min(2 * before, kLongestPause);
  history_.pause_ms = static_cast<std::uint64_t>(pause.count());
  ++restarts;
  return {pause, "restart " + std::to_string(restarts) + " of " + std::to_string(limits_.restarts) +
                     " in " + in_seconds(pause)};
}

}  // namespace hvdrun
