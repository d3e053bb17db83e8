// A world with less than usual: few descriptors, few processes, no folders; and one with more.
#include <algorithm>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

// It ended by itself, said why in a few lines, and left nothing.
void check_refusal(const RunResult& result, const std::string& tag) {
  INFO(result.err);
  CHECK((result.exit_code == 69 || result.exit_code == 70 || result.exit_code == 75));
  const auto lines = std::count(result.err.begin(), result.err.end(), '\n');
  CHECK(lines >= 1);
  CHECK(lines <= 4);
  CHECK(wait_until_gone(tag, 1s).empty());
}

// A sanitizer's own threads and files do not come through.
bool needs_more() {
  if (!is_sanitized()) return false;
  WARN("skipped: the sanitizer needs more than the limits of this test");
  return true;
}

TEST_CASE("too few descriptors are said, and nothing is left", "[limits]") {
  const std::string limit = GENERATE("12", "20", "40");
  if (needs_more()) return;
  CAPTURE(limit);
  const auto marker = fresh_marker();
  const RunResult result =
      run({.args = {"sh", "-c",
                    "ulimit -n " + limit + "; exec " + build_path("hvdrun") + " -np 16 sleep 100"},
           .env = {marker}});
  check_refusal(result, marker.first + "=" + marker.second);
  CHECK(result.exit_code == 75);
  CHECK_THAT(result.err, Catch::Contains("Too many open files; the limit is " + limit +
                                         " (ulimit -Hn): raise it with nofile in "));
}

// Three for each rank are there, but not a fourth for its connection to the agent, or one for the
// memory that they share.
TEST_CASE("too few descriptors for what ranks connect are said", "[limits]") {
  if (needs_more()) return;
  const auto marker = fresh_marker();
  Background job({.args = {"sh", "-c",
                           "ulimit -n 98; exec " + build_path("hvdrun") + " -np 24 " +
                               worker_probe() + " world"},
                  .env = {marker}});
  job.wait_for_output("Too many open files; the limit is 98 (ulimit -Hn): raise it with nofile in ",
                      20s);
  CHECK(job.output().find("hvdrun: localhost: ") != std::string::npos);
  ::kill(job.pid(), SIGTERM);
  CHECK(job.wait(20s) > 0);
  CHECK(wait_until_gone(marker.first + "=" + marker.second, 1s).empty());
}

TEST_CASE("too few processes are said, and nothing is left", "[limits]") {
  if (needs_more()) return;
  // Root has no limit of its own (ulimit -u), so it takes a cgroup.
  const std::string parent =
      ::access("/sys/fs/cgroup/pids", F_OK) == 0 ? "/sys/fs/cgroup/pids" : "/sys/fs/cgroup";
  const std::string folder = parent + "/hvdrun-limits-" + std::to_string(::getpid());
  const auto shell = [](const std::string& script) {
    return run({.args = {"sh", "-c", script}}).exit_code == 0;
  };
  if (!shell("mkdir " + folder) || !shell("echo 100 >" + folder + "/pids.max")) {
    shell("rmdir " + folder);
    WARN("skipped: no pids cgroup can be made at " << folder);
    return;
  }
  for (const char* const limit : {"2", "3", "4", "6", "12"}) {
    CAPTURE(limit);
    const auto marker = fresh_marker();
    const RunResult result = run(
        {.args = {"sh", "-c",
                  "echo " + std::string(limit) + " >" + folder + "/pids.max && echo $$ >" + folder +
                      "/cgroup.procs && exec " + build_path("hvdrun") + " -np 40 sleep 100"},
         .env = {marker}});
    check_refusal(result, marker.first + "=" + marker.second);
  }
  CHECK(shell("rmdir " + folder));
}

TEST_CASE("no home, no folder for temporary files, dots in the program's name", "[limits]") {
  TempFolder folder;
  const std::string program = folder.file("my.train.v1.2", "#!/bin/sh\necho $HVD_RANK/$HVD_SIZE\n");
  REQUIRE(run({.args = {"chmod", "+x", program}}).exit_code == 0);
  const RunResult result =
      run({.args = {"env", "-i", "PATH=/usr/bin:/bin", "TMPDIR=/nonexistent", build_path("hvdrun"),
                    "-np", "2", "--tag-output", "off", program}});
  CHECK(result.exit_code == 0);
  CHECK((result.out == "0/2\n1/2\n" || result.out == "1/2\n0/2\n"));
  CHECK(result.err.empty());
}

TEST_CASE("a megabyte of environment arrives", "[limits]") {
  RunOptions options;
  for (int i = 0; i < 9; ++i)
    options.env.emplace_back("BIG_" + std::to_string(i), std::string(120'000, 'x'));
  const RunResult result =
      hvdrun({"-np", "2", "--tag-output", "off", "sh", "-c", "env | wc -c"}, options);
  CHECK(result.exit_code == 0);
  CHECK(std::stoul(result.out) > 1'000'000);
}

TEST_CASE("many launches at once do not disturb each other", "[limits]") {
  const auto marker = fresh_marker();
  const std::size_t count = soak_count(200);
  const RunResult result =
      run({.args = {"sh", "-c",
                    "for i in $(seq " + std::to_string(count) + "); do (" + build_path("hvdrun") +
                        " -np 2 --tag-output off sh -c 'echo $HVD_RANK' || echo failed) & done; "
                        "wait"},
           .env = {marker}});
  CHECK(static_cast<std::size_t>(std::count(result.out.begin(), result.out.end(), '\n')) ==
        2 * count);
  CHECK(result.out.find("failed") == std::string::npos);
  CHECK(result.err.empty());
  CHECK(wait_until_gone(marker.first + "=" + marker.second, 1s).empty());
}

}  // namespace
}  // namespace hvdrun::test
