// One machine: whoever of us is stopped (SIGSTOP) is named, and missed after the lease, though
// nobody sends a word to be believed alive.
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <thread>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

struct StoppableJob {
  StoppableJob(const std::string& control, const std::string& script)
      : marker(fresh_marker()),
        tag(marker.first + "=" + marker.second),
        job({.args = {build_path("hvdrun"), "--control", control, "--lease", "4", "-np", "2", "sh",
                      "-c", "echo up; " + script},
             .env = {marker}}) {
    job.wait_for_output("[0]<stdout>:up", 10s);
    job.wait_for_output("[1]<stdout>:up", 10s);
  }
  pid_t find(const std::string& name) const {
    for (const auto& info : processes_with(tag))
      if (info.name == name) return info.pid;
    return 0;
  }

  std::pair<std::string, std::string> marker;
  std::string tag;
  Background job;
};

TEST_CASE("who is stopped for the lease ends the job, named before", "[stopped]") {
  const auto [victim, line, end, code] = GENERATE(table<std::string, std::string, std::string, int>(
      {{"hvd-agent", "the agent of host localhost (process ", "; its ranks are ended", 69},
       {"hvd-coordinator", "the coordinator (process ", "; the job was ended", 70}}));
  CAPTURE(victim);
  StoppableJob at("unix", "sleep 300");
  const pid_t pid = at.find(victim);
  REQUIRE(pid > 0);
  const std::string who = line + std::to_string(pid) + ") ";
  const auto start = std::chrono::steady_clock::now();
  REQUIRE(kill(pid, SIGSTOP) == 0);
  at.job.wait_for_output(who + "has been stopped for 3 s; kill -CONT lets it go on", 10s);
  CHECK(std::chrono::steady_clock::now() - start >= 3s);
  CHECK(at.job.wait(10s) == code);
  CHECK(std::chrono::steady_clock::now() - start >= 4s);
  CHECK(at.job.wait_for_output(end, 1s).find(who + "has been stopped for 4 s" + end) !=
        std::string::npos);
  const auto left = wait_until_gone(at.tag, 1s);
  CHECK(left.empty());
}

TEST_CASE("who goes on before the lease is over costs nothing", "[stopped]") {
  if (!takes_turn(2)) return;
  const std::string victim = GENERATE("hvd-agent", "hvd-coordinator");
  CAPTURE(victim);
  StoppableJob at("unix", "sleep 8; echo done");
  const pid_t pid = at.find(victim);
  REQUIRE(pid > 0);
  REQUIRE(kill(pid, SIGSTOP) == 0);
  at.job.wait_for_output("has been stopped for 3 s", 10s);
  REQUIRE(kill(pid, SIGCONT) == 0);
  at.job.wait_for_output("(process " + std::to_string(pid) + ") goes on", 5s);
  CHECK(at.job.wait(15s) == 0);
  CHECK(at.job.output().find("[1]<stdout>:done") != std::string::npos);
}

TEST_CASE("a machine that stood still as a whole goes on", "[stopped]") {
  StoppableJob at("unix", "sleep 8; echo done");
  // Watchers last, and first to go on: they see the others stopped, for longer than the lease.
  const pid_t pids[] = {at.find("hvd-agent"), at.find("hvd-coordinator"), at.find("hvd-guard"),
                        at.job.pid()};
  for (const pid_t pid : pids) {
    REQUIRE((pid > 0 && kill(pid, SIGSTOP) == 0));
    std::this_thread::sleep_for(100ms);  // so that who is stopped next has seen it
  }
  std::this_thread::sleep_for(6s);
  for (std::size_t i = std::size(pids); i-- > 0;) {
    REQUIRE(kill(pids[i], SIGCONT) == 0);
    std::this_thread::sleep_for(100ms);
  }
  CHECK(at.job.wait(15s) == 0);
  CHECK(at.job.output().find("[1]<stdout>:done") != std::string::npos);
  CHECK(at.job.output().find("stopped") == std::string::npos);
}

TEST_CASE("over TCP the coordinator and the agent wait for each other's word", "[stopped]") {
  if (!takes_turn(2)) return;
  StoppableJob at("tcp", "sleep 300");
  const pid_t pid = at.find("hvd-agent");
  REQUIRE(pid > 0);
  REQUIRE(kill(pid, SIGSTOP) == 0);
  at.job.wait_for_output("host localhost has said nothing for 3 s; the lease is 4 s", 10s);
  CHECK(at.job.wait(20s) == 69);
  const auto left = wait_until_gone(at.tag, 1s);
  CHECK(left.empty());
}

// The times that the kernel has given the process, with all its threads, a CPU.
long long wake_ups(pid_t pid) {
  long long all = 0;
  for (const auto& thread :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    long long ran = 0, waited = 0, times = 0;
    std::ifstream(thread.path() / "schedstat") >> ran >> waited >> times;
    all += times;
  }
  return all;
}

TEST_CASE("on one machine nobody of us wakes up while nothing happens", "[stopped]") {
  if (is_sanitized()) {
    WARN("left out: the thread sanitizer has a thread of its own that wakes up");
    return;
  }
  StoppableJob at("unix", "sleep 300");
  std::this_thread::sleep_for(500ms);
  std::vector<std::pair<ProcessInfo, long long>> before;
  for (const auto& info : processes_with(at.tag)) before.emplace_back(info, wake_ups(info.pid));
  REQUIRE(before.size() == 8);  // two shells and sleeps among them
  std::this_thread::sleep_for(3s);
  for (const auto& [info, times] : before) {
    INFO(info.name);
    REQUIRE(times > 0);
    CHECK(wake_ups(info.pid) == times);
  }
}

}  // namespace
}  // namespace hvdrun::test
