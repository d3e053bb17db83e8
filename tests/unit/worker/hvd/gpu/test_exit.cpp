// Programs that end while something is under way on a GPU: by that signal or with that code.
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <spawn.h>
#include <string>
#include <sys/wait.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"

using namespace hvdrun::test;

extern char** environ;

namespace {

// "exit code 7", "signal 15"; with how long it has taken.
struct End {
  std::string text;
  std::chrono::steady_clock::duration took{};
};

End run_probe(std::string what, std::string how) {
  const char* const file = std::getenv("HVD_TEST_GPU_EXIT_PROBE");
  REQUIRE(file != nullptr);
  std::string program = file;
  const std::array<char*, 4> argv{program.data(), what.data(), how.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  // The words of terminate() are no news here.
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", 1, 0);
  pid_t pid = -1;
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(::posix_spawn(&pid, file, &actions, nullptr, argv.data(), environ) == 0);
  ::posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() - begin > 20s) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(1ms);
  }
  return {WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                            : "signal " + std::to_string(WTERMSIG(status)),
          std::chrono::steady_clock::now() - begin};
}

}  // namespace

TEST_CASE("exit() in the middle of NCCL's work ends with its code", "[gpu][exit]") {
  const std::string what = GENERATE("operation", "calls", "graph");
  const std::string how = GENERATE("return", "exit", "handler");
  CAPTURE(what, how);
  CHECK(run_probe(what, how).text == "exit code 7");
}

TEST_CASE("exit() does not wait for a thread that is stuck within NCCL", "[gpu][exit]") {
  const End end = run_probe("abort", "exit");
  CHECK(end.text == "exit code 7");
  CHECK(end.took < 15s);  // the fake's abort takes 30
}

TEST_CASE("a signal or an exception ends a program at once", "[gpu][exit]") {
  CHECK(run_probe("calls", "SIGTERM").text == "signal 15");
  CHECK(run_probe("operation", "SIGINT").text == "signal 2");
  CHECK(run_probe("operation", "exception").text == "signal 6");
}
