// Kernels and seccomp profiles that lack a call that hvdrun uses.
#include <cerrno>
#include <chrono>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

RunResult without(const std::string& call, int error, const std::vector<std::string>& args,
                  RunOptions options = {}) {
  options.args = {build_path("tests/integration/programs/deny_syscall"), call,
                  std::to_string(error), build_path("hvdrun")};
  options.args.insert(options.args.end(), args.begin(), args.end());
  return run(options);
}

TEST_CASE("without pidfds one line names the kernel that has them", "[kernel]") {
  const int error = GENERATE(ENOSYS, EPERM);
  const RunResult result = without("pidfd_open", error, {"-np", "2", "/bin/true"});
  CHECK(result.exit_code == 69);
  CHECK(result.out.empty());
  CHECK(result.err.find("pidfd_open") != std::string::npos);
  CHECK(result.err.find("Linux 5.3") != std::string::npos);
  CHECK(result.err.find('\n') == result.err.size() - 1);
}

TEST_CASE("without memfd_create the ranks share memory all the same", "[kernel]") {
  const int error = GENERATE(ENOSYS, EPERM);
  const RunResult before = run({.args = {"ls", "-A", "/dev/shm"}});
  const RunResult result =
      without("memfd_create", error, {"-np", "4", worker_probe(), "collectives"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(run({.args = {"ls", "-A", "/dev/shm"}}).out == before.out);
}

// Its pages are made at the first touch, and one that cannot be made then kills with SIGBUS.
TEST_CASE("a /dev/shm that is too small for the ranks is an error that says so", "[kernel]") {
  const std::string shm = "mount -t tmpfs -o size=1m shm /dev/shm";
  if (geteuid() != 0 || run({.args = {"unshare", "--mount", "sh", "-c", shm}}).exit_code != 0) {
    WARN("no file system can be mounted here");
    return;
  }
  const RunResult result =
      run({.args = {"unshare", "--mount", "sh", "-c", shm + " && exec \"$@\"", "sh",
                    build_path("tests/integration/programs/deny_syscall"), "memfd_create",
                    std::to_string(EPERM), build_path("hvdrun"), "-np", "4", worker_probe(),
                    "collectives"}});
  INFO(result.err);
  CHECK(result.exit_code == 9);
  CHECK(result.err.find("hvd::init(): shared memory: no room for ") != std::string::npos);
  CHECK(result.err.find("in /dev/shm, which stands in for memfd_create here; make it larger "
                        "(docker run --shm-size): No space left on device") != std::string::npos);
  CHECK(result.err.find("SIGBUS") == std::string::npos);
}

TEST_CASE("without close_range no descriptor gets into a rank", "[kernel]") {
  const int error = GENERATE(ENOSYS, EPERM);
  // The fourth is ls's own.
  const RunResult result = without(
      "close_range", error,
      {"-np", "2", "--tag-output", "off", "sh", "-c", "ls /proc/self/fd | tr '\\n' ' '; echo"});
  CHECK(result.exit_code == 0);
  CHECK(result.out == "0 1 2 3 \n0 1 2 3 \n");
}

TEST_CASE("without pidfd_send_signal the others still end", "[kernel]") {
  const auto marker = fresh_marker();
  const RunResult result = without(
      "pidfd_send_signal", ENOSYS,
      {"-np", "3", "sh", "-c", "[ $HVD_RANK = 1 ] && exit 7; exec sleep 100"}, {.env = {marker}});
  CHECK(result.exit_code == 7);
  CHECK(wait_until_gone(marker.first + "=" + marker.second, std::chrono::seconds(1)).empty());
}

TEST_CASE("a low soft limit of files is raised for us and kept for the ranks", "[kernel]") {
  // 40 ranks need more than 64 descriptors of the agent.
  const RunResult result = run({.args = {"sh", "-c",
                                         "ulimit -Sn 64; exec " + build_path("hvdrun") +
                                             " -np 40 --tag-output off sh -c 'ulimit -Sn'"}});
  CHECK(result.exit_code == 0);
  std::string expected;
  for (int rank = 0; rank < 40; ++rank) expected += "64\n";
  CHECK(result.out == expected);
}

}  // namespace
}  // namespace hvdrun::test
