#include "cli/verdict.h"

#include <string.h>

namespace hvdrun {
namespace {

std::string signal_name(std::uint32_t signal) {
  const char* const name = ::sigabbrev_np(static_cast<int>(signal));
  return "signal " + std::to_string(signal) +
         (name != nullptr ? " (SIG" + std::string(name) + ")" : "");
}

std::string others(std::uint32_t count) {
  if (count == 0) return "";
  return count == 1 ? "; the other rank was ended"
                    : "; the other " + std::to_string(count) + " ranks were ended";
}

}  // namespace

std::string describe_verdict(const JobEnded& verdict) {
  const std::string who = "rank " + std::to_string(verdict.rank) + " on " + verdict.host;
  switch (verdict.cause) {
    case EndCause::success:
      return "";
    case EndCause::rank_failed:
      switch (verdict.kind) {
        case ExitKind::exited:
          return who + " (pid " + std::to_string(verdict.pid) + ") exited with code " +
                 std::to_string(verdict.value) + others(verdict.others_ended);
        case ExitKind::signaled:
          return who + " (pid " + std::to_string(verdict.pid) + ") was killed by " +
                 signal_name(verdict.value) + others(verdict.others_ended);
        case ExitKind::not_started:
          return who + " could not start: " + verdict.text;
      }
      return who + " failed";
    case EndCause::host_lost:
      return "host " + verdict.host + " was lost: " + verdict.text;
    case EndCause::aborted:
      return "ended by " + signal_name(verdict.value);
    case EndCause::start_timeout:
      return "these hosts did not come up in time: " + verdict.text +
             "; --start-timeout gives them longer";
  }
  return "the job ended for an unknown reason";
}

}  // namespace hvdrun
