#include "common/process/stand_in.h"

#include <cerrno>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {

int wait_for_child(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return W_EXITCODE(1, 0);
  return status;
}

void end_as(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    ::signal(signal, SIG_DFL);
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, signal);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    ::kill(::getpid(), signal);
    ::_exit(128 + signal);
  }
  ::_exit(WEXITSTATUS(wait_status));
}

UniqueFd go_on_in_child() {
  UniqueFd parent(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!parent) return {};
  ::signal(SIGCHLD, SIG_DFL);  // ignored, the child would be reaped by the kernel, unasked
  const pid_t child = ::fork();
  if (child < 0) return {};
  if (child > 0) end_as(wait_for_child(child));
  return parent;
}

}  // namespace hvdrun
