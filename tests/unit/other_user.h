// A process of another user, for what is not to trust one. Only root can make it.
#pragma once

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun::test {

constexpr uid_t kOtherUser = 65534;

// False, with a line that says why, when this test cannot be made here.
inline bool can_be_other_user(const char* test) {
  if (::geteuid() == 0) return true;
  std::printf("skipped, because only root can act for another user: %s\n", test);
  return false;
}

// `act` in a child of that user; its result is the child's exit code. The process must have one
// thread.
inline pid_t fork_as(uid_t user, const std::function<int()>& act) {
  const pid_t pid = ::fork();
  if (pid < 0) throw std::runtime_error("fork");
  if (pid == 0) ::_exit(::setresuid(user, user, user) == 0 ? act() : 99);
  return pid;
}

inline int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace hvdrun::test
