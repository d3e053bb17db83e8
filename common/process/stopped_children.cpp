#include "common/process/stopped_children.h"

#include <cerrno>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {

UniqueFd open_child_signals() {
  // Whoever started us may have them ignored: children are then reaped by the kernel, unasked.
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  if (const int fault = ::pthread_sigmask(SIG_BLOCK, &set, nullptr); fault != 0) {
    errno = fault;
    return {};
  }
  return UniqueFd(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
}

void drain_child_signals(int fd) {
  signalfd_siginfo info[4];
  while (::read(fd, info, sizeof info) > 0) {
  }
}

bool has_ended(pid_t child) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT | WNOHANG) == 0 &&
         info.si_pid == child;
}

std::optional<bool> stop_change(pid_t child) {
  std::optional<bool> change;
  for (;;) {
    siginfo_t info{};
    const int rc =
        ::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WCONTINUED | WNOHANG);
    if (rc != 0 && errno == EINTR) continue;
    if (rc != 0 || info.si_pid == 0) return change;
    change = info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED;
  }
}

}  // namespace hvdrun
