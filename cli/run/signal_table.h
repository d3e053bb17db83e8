// The effect on hvdrun of a signal that it gets (README, "Signals"). A signal that was ignored when
// hvdrun was started (nohup, a background job) stays ignored.
#pragma once

#include <array>
#include <signal.h>

namespace hvdrun {

enum class SignalAction {
  end,      // once: down the kill ladder; twice: everything is killed at once
  status,   // print where every rank stands
  forward,  // to every rank's process group
  stop,     // stop the ranks (SIGSTOP), then hvdrun itself
};

struct HandledSignal {
  int signal;
  SignalAction action;
};

inline constexpr auto kSignalTable = std::to_array<HandledSignal>({
    {SIGINT, SignalAction::end},
    {SIGTERM, SignalAction::end},
    {SIGHUP, SignalAction::end},
    {SIGQUIT, SignalAction::status},
    {SIGUSR1, SignalAction::forward},
    {SIGUSR2, SignalAction::forward},
    {SIGWINCH, SignalAction::forward},
    {SIGCONT, SignalAction::forward},
    {SIGTSTP, SignalAction::stop},
});

}  // namespace hvdrun
