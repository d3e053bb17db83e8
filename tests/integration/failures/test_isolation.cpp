// The second net: --isolation cgroup and pidns. With it nothing survives even when everything of
// ours is killed at the same moment.
#include <filesystem>
#include <fstream>
#include <signal.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A system may forbid either; then hvdrun says so and nothing has been started.
bool is_allowed(const std::string& isolation) {
  const RunResult result = hvdrun({"--isolation", isolation, "-np", "1", "true"});
  if (result.exit_code == 0) return true;
  CHECK(result.exit_code == 69);
  CHECK(result.err.find("--isolation auto does without") != std::string::npos);
  WARN("skipped: " << result.err);
  return false;
}

TEST_CASE("every isolation runs a job and passes its exit code on", "[isolation]") {
  for (const char* isolation : {"auto", "cgroup", "pidns", "none"}) {
    CAPTURE(isolation);
    if (!is_allowed(isolation)) continue;
    const RunResult result =
        hvdrun({"--isolation", isolation, "-np", "2", worker_probe(), "collectives"});
    INFO(result.err);
    CHECK(result.exit_code == 0);
    CHECK(hvdrun({"--isolation", isolation, "-np", "2", "sh", "-c", "exit 5"}).exit_code == 5);
  }
}

TEST_CASE("in a process namespace nothing outlives all of us at once", "[isolation]") {
  if (!is_allowed("pidns")) return;
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  Background job({.args = {build_path("hvdrun"), "--isolation", "pidns", "-np", "2", "sh", "-c",
                           "setsid sleep 300 & (setsid sleep 300 &) & trap '' TERM; echo up; "
                           "sleep 300; sleep 300"},
                  .env = {marker}});
  job.wait_for_output("[0]<stdout>:up", 10s);
  job.wait_for_output("[1]<stdout>:up", 10s);
  // Stopped first: none of them can act on the end of another.
  for (const int signal : {SIGSTOP, SIGKILL})
    for (const auto& info : processes_with(tag))
      if (info.name.starts_with("hvd")) kill(info.pid, signal);
  const auto left = wait_until_gone(tag, 1s);
  for (const auto& info : left) {
    UNSCOPED_INFO("left: " << info.name << " " << info.pid);
    kill(info.pid, SIGKILL);
  }
  CHECK(left.empty());
}

TEST_CASE("a cgroup of the job's own holds it and is removed", "[isolation]") {
  if (!is_allowed("cgroup")) return;
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  Background job({.args = {build_path("hvdrun"), "--isolation", "cgroup", "-np", "1", "sh", "-c",
                           "grep ^0:: /proc/self/cgroup; setsid sleep 300 & exec sleep 300"},
                  .env = {marker}});
  const std::string text = job.wait_for_output("hvdrun-", 10s);
  const auto at = text.find("hvdrun-");
  const std::string name = text.substr(at, text.find('\n', at) - at);
  std::string folder;
  const auto options = fs::directory_options::skip_permission_denied;
  for (const auto& entry : fs::recursive_directory_iterator("/sys/fs/cgroup", options))
    if (entry.path().filename() == name) folder = entry.path();
  REQUIRE(!folder.empty());
  kill(job.pid(), SIGKILL);
  CHECK(wait_until_gone(tag, 1s).empty());
  for (int i = 0; i < 100 && fs::exists(folder); ++i) run({.args = {"sleep", "0.01"}});
  CHECK_FALSE(fs::exists(folder));
}

}  // namespace
}  // namespace hvdrun::test
