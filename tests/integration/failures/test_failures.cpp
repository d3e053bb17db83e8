#include <regex>
#include <signal.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("the exit code is that of the first failing rank", "[failure]") {
  const RunResult result =
      hvdrun({"-np", "4", "sh", "-c", "[ $HVD_RANK = 2 ] && exit 7; exec sleep 100"});
  CHECK(result.exit_code == 7);
  CHECK(result.err.find("rank 2 on localhost (pid ") != std::string::npos);
  CHECK(result.err.find("exited with code 7 after ") != std::string::npos);
  CHECK(result.err.find("then rank 0, 1, 3 ended by signal 15 (SIGTERM)") != std::string::npos);
  CHECK(result.time < 3s);
}

TEST_CASE("a signal is 128 + its number", "[failure]") {
  for (const auto& [signal, code] :
       {std::pair{"KILL", 137}, {"SEGV", 139}, {"ABRT", 134}, {"TERM", 143}}) {
    CAPTURE(signal);
    const RunResult result =
        hvdrun({"-np", "2", "sh", "-c",
                std::string("[ $HVD_RANK = 1 ] && kill -") + signal + " $$; exec sleep 100"});
    CHECK(result.exit_code == code);
    CHECK(result.err.find("rank 1") != std::string::npos);
    CHECK(result.err.find(std::string("SIG") + signal) != std::string::npos);
  }
}

TEST_CASE("what cannot be started says why", "[failure]") {
  RunResult result = hvdrun({"-np", "2", "/no/such/program"});
  CHECK(result.exit_code == 127);
  CHECK(result.err.find("'/no/such/program': No such file or directory") != std::string::npos);
  result = hvdrun({"-np", "2", "no-such-program"});
  CHECK(result.exit_code == 127);
  result = hvdrun({"-np", "2", "/etc/passwd"});
  CHECK(result.exit_code == 126);
  CHECK(result.err.find("Permission denied") != std::string::npos);
  result = hvdrun({"-np", "2", "/tmp"});
  CHECK(result.exit_code == 126);
}

TEST_CASE("ranks that ignore TERM are killed after the grace", "[failure]") {
  const RunResult result =
      hvdrun({"--grace", "1", "-np", "3", "sh", "-c",
              "[ $HVD_RANK = 0 ] && { sleep 0.3; exit 5; }; trap '' TERM; sleep 100; sleep 100"});
  CHECK(result.exit_code == 5);
  CHECK(result.time >= 1s);
  CHECK(result.time < 4s);
}

// For a job whose ranks end at the moment in which they are told to. A sanitizer's search for leaks
// stops a process as a debugger does, and a TERM that comes then may be lost: KILL follows after
// the grace.
std::chrono::seconds soon() { return is_sanitized() ? 12s : 5s; }

TEST_CASE("a dead peer is an error within a second, on its host and on others", "[failure]") {
  const std::string hosts = GENERATE("localhost:3", "a:1,b:2", "a:2,b:1");
  CAPTURE(hosts);
  // Ranks that ignore TERM live on through the grace and can be heard.
  Background job({.args = {build_path("hvdrun"), "--grace", "2", "--transport", "local", "-H",
                           hosts, "sh", "-c", "trap '' TERM; exec " + worker_probe() + " loop"},
                  .env = {fresh_marker()}});
  job.wait_for_output("looping", 20s);
  const auto workers = processes_with("HVD_RANK=1");
  pid_t victim = 0;
  for (const auto& info : workers)
    if (info.name == "worker_probe") victim = info.pid;
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGKILL) == 0);
  for (const std::string rank : {"0", "2"}) {
    const std::string said = "[" + rank + "]<stdout>:error after ";
    const std::string text = job.wait_for_output(said, 5s);
    CHECK(text.find("rank 1") != std::string::npos);
    CHECK(text.find("killed by signal 9 (SIGKILL)") != std::string::npos);
    int ms = -1;
    const auto at = text.find(said);
    REQUIRE(std::sscanf(text.c_str() + at + said.size(), "%d ms", &ms) == 1);
    CHECK(ms < 1000);
  }
  CHECK(job.wait(6s) == 137);
}

TEST_CASE("a rank that ends before hvd::init is named, and nobody waits for it", "[failure]") {
  const RunResult result = hvdrun({"-np", "3", worker_probe(), "early-exit"});
  CHECK(result.exit_code == 81);
  CHECK(result.err.find("rank 1 on localhost (pid ") != std::string::npos);
  CHECK(result.err.find("but others still needed it") != std::string::npos);
  // On a slow machine one of them may come too late to be told of.
  CHECK(std::regex_search(result.err,
                          std::regex("because waited for in hvd::init by rank (0|2|0, 2)\n")));
  CHECK(result.time < soon());
}

TEST_CASE("a rank that leaves while others need it is an error for them", "[failure]") {
  // Often: what the others say and their ends come at the same moment.
  const int jobs = is_sanitized() ? 6 : 30;
  for (int i = 0; i < jobs; ++i) {
    const RunResult result = hvdrun({"-np", "3", worker_probe(), "exit-early"});
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 81);
    CHECK(result.err.find("hvdrun: rank 1 on localhost (pid ") != std::string::npos);
    CHECK(result.err.find("exited with code 0 after ") != std::string::npos);
    // With what that rank said.
    CHECK(std::regex_search(result.err, std::regex("because rank [02]: \\S.*rank 1 ")));
    CHECK(result.time < soon());
  }
}

TEST_CASE("signals to the launcher end the job: once by the ladder, twice at once", "[failure]") {
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    CAPTURE(signal);
    Background job({.args = {build_path("hvdrun"), "-np", "2", "sleep", "100"}, .env = {marker}});
    wait_for_processes(
        tag,
        {{"hvdrun", 1}, {"hvd-coordinator", 1}, {"hvd-guard", 1}, {"hvd-agent", 1}, {"sleep", 2}},
        10s);
    kill(job.pid(), signal);
    CHECK(job.wait(3s) == 128 + signal);
    CHECK(wait_until_gone(tag, 1s).empty());
  }
  Background job({.args = {build_path("hvdrun"), "--grace", "100", "-np", "2", "sh", "-c",
                           "trap '' TERM; echo ready; sleep 100; sleep 100"},
                  .env = {marker}});
  job.wait_for_output("ready", 10s);
  // Two at the same moment are one.
  kill(job.pid(), SIGINT);
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(700ms) == -1);
  kill(job.pid(), SIGINT);
  CHECK(job.wait_for_output("hvdrun: signal 2 again: killing everything at once\n", 2s) != "");
  CHECK(job.wait(2s) == 130);
  CHECK(wait_until_gone(tag, 1s).empty());
}

}  // namespace
}  // namespace hvdrun::test
