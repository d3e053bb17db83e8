// --max-restarts: a job that has failed starts again as a whole.
#include <fstream>
#include <regex>
#include <set>
#include <signal.h>
#include <sstream>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

// Rank 1 of the first start fails, while the others would go on for long.
const char* const kFailsOnce =
    "echo start $HVD_RESTART_COUNT of $HVD_MAX_RESTARTS: $TORCHELASTIC_RESTART_COUNT "
    "$TORCHELASTIC_MAX_RESTARTS rank $RANK of $WORLD_SIZE, port $MASTER_PORT; "
    ": >$0/$HVD_RESTART_COUNT.$HVD_RANK; "
    "[ $HVD_RESTART_COUNT.$HVD_RANK = 0.1 ] && "
    "{ until [ -e $0/0.0 ] && [ -e $0/0.2 ]; do sleep 0.05; done; exit 3; }; "
    "[ $HVD_RESTART_COUNT = 0 ] && exec sleep 300; exit 0";

TEST_CASE("a job that fails is started again whole, and ends well", "[restarts]") {
  const TempFolder folder;
  const std::string control = GENERATE("unix", "tcp");
  const auto marker = fresh_marker();
  const RunResult job = hvdrun({"--control", control, "-np", "3", "--max-restarts", "2",
                                "--output-filename", folder.path() + "/out", "--events",
                                folder.path() + "/events", "sh", "-c", kFailsOnce, folder.path()},
                               {.env = {marker}});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.err, Contains("hvdrun: rank 1 on localhost"));
  CHECK_THAT(job.err, Contains("exited with code 3"));
  CHECK_THAT(job.err, Contains("hvdrun: restart 1 of 2 in 1 s\n"));
  std::set<std::string> ports;
  const std::regex line("start (\\d) of 2: (\\d) 2 rank (\\d) of 3, port (\\d+)");
  int lines = 0;
  for (auto it = std::sregex_iterator(job.out.begin(), job.out.end(), line);
       it != std::sregex_iterator(); ++it, ++lines) {
    CHECK((*it)[1] == (*it)[2]);
    ports.insert((*it)[1].str() + ":" + (*it)[4].str());
  }
  CHECK(lines == 6);
  CHECK(ports.size() == 2);
  // Files get more, as does that of the events.
  const std::string file = contents(folder.path() + "/out/rank.0/stdout");
  CHECK_THAT(file, Contains("start 0 of 2") && Contains("start 1 of 2"));
  const std::string events = contents(folder.path() + "/events");
  CHECK(times_in(events, "\"event\":\"job_started\"") == 2);
  CHECK(times_in(events, "\"event\":\"job_ended\"") == 2);
  CHECK(processes_with(marker.first + "=" + marker.second).empty());
}

TEST_CASE("the exit code is that of the last failure", "[restarts]") {
  const RunResult job = hvdrun({"-np", "2", "--max-restarts", "1", "sh", "-c",
                                "[ $HVD_RANK = 1 ] && exit $((HVD_RESTART_COUNT + 5)); sleep 9"});
  CAPTURE(job.err);
  CHECK(job.exit_code == 6);
  CHECK_THAT(job.err, Contains("restart 1 of 1 in 1 s\n"));
  CHECK_THAT(job.err, Contains("it is not started again, as it was 1 time (--max-restarts 1)\n"));
}

TEST_CASE("what would fail again is not started again", "[restarts]") {
  SECTION("by its code") {
    const RunResult job = hvdrun({"-np", "1", "--max-restarts", "3", "sh", "-c", "exit 93"});
    CHECK(job.exit_code == 93);
    CHECK_THAT(job.err, Contains("it is not started again, as code 93 would come again\n"));
  }
  SECTION("as it did three times") {
    const RunResult job = hvdrun({"-np", "1", "--max-restarts", "9", "sh", "-c", "exit 3"});
    CHECK(job.exit_code == 3);
    CHECK_THAT(job.err, Contains("restart 2 of 9 in 2 s\n"));
    CHECK_THAT(job.err, Contains("it is not started again, as it has failed in the same way 3 "
                                 "times, each within 30 s\n"));
  }
  SECTION("as there is no such program") {
    const RunResult job = hvdrun({"-np", "1", "--max-restarts", "3", "./no-such-program"});
    CHECK(job.exit_code == 127);
    CHECK_THAT(job.err, !Contains("restart"));
  }
}

TEST_CASE("between two starts the job answers, and a signal ends it", "[restarts]") {
  const auto marker = fresh_marker();
  Background job({.args = {build_path("hvdrun"), "-np", "1", "--max-restarts", "9", "sh", "-c",
                           "exit $((HVD_RESTART_COUNT + 3))"},
                  .env = {marker}});
  // Long enough to ask: 8 s.
  job.wait_for_output("restart 4 of 9 in 8 s\n", 60s);
  const std::regex row("(\\w{8}) +" + std::to_string(job.pid()) + " .* restarting +sh -c exit");
  std::smatch found;
  std::string ps;
  for (const auto end = std::chrono::steady_clock::now() + 5s;
       !std::regex_search(ps, found, row) && std::chrono::steady_clock::now() < end;)
    ps = hvdrun({"ps"}).out;
  INFO(ps);
  REQUIRE_FALSE(found.empty());
  const std::string id = found[1];
  CHECK_THAT(hvdrun({"status", id}).out, Contains("job " + id + " restarting since "));
  CHECK_THAT(hvdrun({"hosts", id, "drain", "x"}).err, Contains("about to start again"));
  kill(job.pid(), SIGQUIT);
  job.wait_for_output("hvdrun: restart 4 in ", 5s);
  kill(job.pid(), SIGINT);
  CHECK(job.wait(5s) == 130);
  CHECK_THAT(job.output(), Contains("ended by signal 2 (SIGINT) before restart 4\n"));
  CHECK(wait_until_gone(marker.first + "=" + marker.second, 1s).empty());
}

TEST_CASE("a job that its user ends is not started again", "[restarts]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  Background job({.args = {build_path("hvdrun"), "-np", "1", "--max-restarts", "9", "sh", "-c",
                           "echo here; exec sleep 300"}});
  job.wait_for_output("here", 10s);
  kill(job.pid(), signal);
  CHECK(job.wait(10s) == 128 + signal);
  CHECK_THAT(job.output(), !Contains("restart"));
}

TEST_CASE("--timeout is the time of all starts together", "[restarts]") {
  SECTION("it ends between two of them") {
    // Pauses of 1, 2, 4 and 8 s.
    const RunResult job = hvdrun({"-np", "1", "--timeout", "10", "--max-restarts", "9", "sh", "-c",
                                  "exit $((HVD_RESTART_COUNT + 3))"});
    CHECK(job.exit_code == 124);
    CHECK_THAT(job.err, Contains("restart 4 of 9 in 8 s\n"));
    CHECK_THAT(job.err, Contains("the job's time (--timeout) was over before it started again\n"));
  }
  SECTION("it ends in one of them") {
    const RunResult job = hvdrun({"-np", "1", "--timeout", "6", "--max-restarts", "9", "sh", "-c",
                                  "[ $HVD_RESTART_COUNT = 0 ] && exit 3; exec sleep 300"});
    CHECK(job.exit_code == 124);
    CHECK_THAT(job.err, Contains("its time (--timeout) was over"));
  }
}

TEST_CASE("what was read from a pipe, and who reads the events, is there for each start",
          "[restarts]") {
  const RunResult job = run(
      {.args = {"bash", "-c",
                "exec \"$0\" --env-file <(echo FROM_PIPE=yes) --hostfile <(echo localhost:2) "
                "--max-restarts 1 --events >(sed 's/^/event: /' >&2) sh -c "
                "'echo $HVD_RANK of $HVD_SIZE: $FROM_PIPE; exit $((3 * (1 - HVD_RESTART_COUNT)))'",
                build_path("hvdrun")}});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  for (const char* const line : {"0 of 2: yes\n", "1 of 2: yes\n"})
    CHECK(times_in(job.out, line) >= 1);
  CHECK(times_in(job.out, "of 2: yes\n") >= 3);
  CHECK(times_in(job.err, "\"event\":\"job_ended\"") == 2);
}

TEST_CASE("a reader of a named pipe of events reads those of all starts", "[restarts]") {
  const TempFolder folder;
  // The reader may be there a moment later.
  const RunResult job = run(
      {.args = {"sh", "-c",
                "mkfifo $1/pipe; cat $1/pipe >$1/events & code=64; while [ $code = 64 ]; do \"$0\" "
                "-np 1 --max-restarts 1 --events $1/pipe sh -c 'exit $((3 * (1 - "
                "HVD_RESTART_COUNT)))'; code=$?; done; wait; exit $code",
                build_path("hvdrun"), folder.path()}});
  INFO(job.err);
  CHECK(job.exit_code == 0);
  CHECK(times_in(contents(folder.path() + "/events"), "\"event\":\"job_ended\"") == 2);
}

TEST_CASE("a start that cannot be prepared ends with the last failure's code", "[restarts]") {
  const TempFolder folder;
  const std::string env = folder.path() + "/env";
  std::ofstream(env) << "A=1\n";
  const RunResult job = hvdrun(
      {"-np", "1", "--max-restarts", "3", "--env-file", env, "sh", "-c", "rm " + env + "; exit 3"});
  CHECK(job.exit_code == 3);
  CHECK_THAT(job.err, Contains("hvdrun: the job is not started again: --env-file '" + env + "'"));
}

// Ranks get them from hvdrun's own, which changes its own.
TEST_CASE("hvdrun has the same limits and signals in each start", "[restarts]") {
  const RunResult again = run(
      {.args = {"sh", "-c", "ulimit -Sn 512; P=$$ exec \"$@\"", "sh", build_path("hvdrun"), "-np",
                "2", "--max-restarts", "1", "--tag-output", "off", "sh", "-c",
                "echo files $(ulimit -Sn), $(grep -E 'Sig(Ign|Blk|Cgt)' /proc/$P/status | tr -d "
                "'\\n\\t '), $(cat /proc/$P/comm); sleep 0.5; exit $((3 * (1 - "
                "HVD_RESTART_COUNT)))"}});
  CAPTURE(again.out, again.err);
  CHECK(again.exit_code == 0);
  std::set<std::string> different;
  std::istringstream lines(again.out);
  for (std::string line; std::getline(lines, line);) different.insert(line);
  CHECK(different.size() == 1);
  CHECK_THAT(again.out, Contains("files 512,") && Contains(", hvdrun\n"));
}

}  // namespace
}  // namespace hvdrun::test
