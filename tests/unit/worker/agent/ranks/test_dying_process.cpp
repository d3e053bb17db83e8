// The kernel on a process that is dead, or said to be.
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "worker/agent/ranks/dying_process.h"

namespace hvdrun {
namespace {

TEST_CASE("a process that lives has a program and writes no core file", "[dying]") {
  CHECK(has_program(::getpid()));
  CHECK_FALSE(dumps_core(::getpid()));
}

TEST_CASE("a process that has ended has no program, though nobody has waited for it", "[dying]") {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  CHECK_FALSE(has_program(child));
  CHECK_FALSE(dumps_core(child));
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(has_program(child));
}

}  // namespace
}  // namespace hvdrun
