// The summary of a failed job: the first cause, why, its last words, the others as victims.
#include <signal.h>
#include <sstream>
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("the summary comes last, with the last lines of stderr", "[summary]") {
  const RunResult result =
      hvdrun({"-np", "3", "sh", "-c",
              "[ $HVD_RANK = 1 ] || exec sleep 100; "
              "for i in 1 2 3; do echo line $i >&2; done; printf 'no newline' >&2; exit 3"});
  CHECK(result.exit_code == 3);
  const auto at = result.err.find("hvdrun: rank 1 on localhost (pid ");
  REQUIRE(at != std::string::npos);
  const std::string block = result.err.substr(at);
  CHECK(has(block, "exited with code 3 after "));
  CHECK(has(block, "hvdrun:   | line 3\nhvdrun:   | no newline\n"));
  CHECK(has(block, "hvdrun:   then rank 0, 2 ended by signal 15 (SIGTERM)\n"));
  CHECK(!has(block, "[1]<stderr>"));
}

TEST_CASE("a code of the program's own that is also one of ours", "[summary]") {
  const RunResult result = hvdrun({"-np", "1", "sh", "-c", "exit 69"});
  CHECK(result.exit_code == 69);
  CHECK(has(result.err, "that 69 is the program's own code"));
}

TEST_CASE("a rank whose library says that a peer is gone is not the first suspect", "[summary]") {
  // As Horovod does it: the rank that fails shuts the collectives down on its way out, and the
  // others are faster. Their lines may still be in the pipe when they end.
  const std::string victim =
      "echo 'horovod.common.exceptions.HorovodInternalError: Horovod has been shut down.' >&2; "
      "exit 1";
  const auto run_with = [&](const std::string& culprit) {
    return hvdrun({"-np", "3", "sh", "-c", "[ $HVD_RANK = 1 ] || { " + victim + "; }; " + culprit});
  };
  const RunResult failed = run_with("sleep 0.2; echo ValueError >&2; exit 3");
  CHECK(failed.exit_code == 3);
  CHECK(has(failed.err, "hvdrun: rank 1 on localhost (pid "));
  CHECK(has(failed.err, "hvdrun:   | ValueError\n"));
  CHECK(has(failed.err, "hvdrun:   then rank 0, 2 exited with code 1\n"));
  const RunResult early = run_with("sleep 0.2; exit 0");
  CHECK(early.exit_code == 81);
  CHECK(has(early.err, "hvdrun: rank 1 on localhost (pid "));
  // Nobody else fails: then it is the first that did.
  const RunResult nobody = run_with("exec sleep 100");
  CHECK(nobody.exit_code == 1);
  CHECK(nobody.time > 900ms);
  CHECK(nobody.time < 4s);
}

TEST_CASE("a rank that never reaches init is named by those who waited", "[summary]") {
  const RunResult result =
      hvdrun({"-x", "HVD_INIT_TIMEOUT=1", "-np", "3", "sh", "-c",
              "[ $HVD_RANK = 1 ] && exec sleep 100; exec " + worker_probe() + " collectives"});
  CHECK(result.exit_code == 80);
  CHECK(has(result.err, "rank 1 never reached hvd::init; the others waited there"));
}

TEST_CASE("the time of the whole job is limited", "[summary]") {
  const RunResult result = hvdrun({"--timeout", "0.5", "-np", "2", "sleep", "100"});
  CHECK(result.exit_code == 124);
  CHECK(has(result.err, "--timeout"));
  CHECK(result.time < 5s);
}

TEST_CASE("events tell every change of every rank, as lines of JSON", "[summary]") {
  const TempFolder folder;
  const std::string file = folder.path() + "/events";
  const RunResult result =
      hvdrun({"--events", file, "-np", "2", "sh", "-c",
              "[ $HVD_RANK = 0 ] && exit 69; exec " + worker_probe() + " before-init"});
  CHECK(result.exit_code == 69);
  const RunResult parsed = run(
      {.args = {
           "/usr/bin/python3", "-c",
           "import json, sys\n"
           "for line in open(sys.argv[1]):\n"
           "    e = json.loads(line)\n"
           "    print(e['event'], e.get('rank', '-'), e.get('state', '-'),\n"
           "          e.get('exit_code', '-'), e.get('signal', '-'), e.get('exit_code_of', '-'),\n"
           "          len(e['job']), e['time'][-1])\n",
           file}});
  INFO(parsed.err);
  REQUIRE(parsed.exit_code == 0);
  CHECK(has(parsed.out, "job_started - - - - - 32 Z\n"));
  CHECK(has(parsed.out, "rank 0 started - - - 32 Z\n"));
  CHECK(has(parsed.out, "rank 1 started - - - 32 Z\n"));
  CHECK(has(parsed.out, "rank 0 exited 69 - - 32 Z\n"));
  CHECK(has(parsed.out, "rank 1 exited - 15 - 32 Z\n"));
  CHECK(has(parsed.out, "job_ended 0 - 69 - program 32 Z\n"));
}

TEST_CASE("events that cannot be written are said before anything starts", "[summary]") {
  const RunResult result = hvdrun({"--events", "/no/such/folder/events", "-np", "1", "true"});
  CHECK(result.exit_code == 64);
  CHECK(has(result.err, "--events: /no/such/folder/events: No such file or directory"));
  // A pipe is not waited for.
  const TempFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const RunResult unread = hvdrun({"--events", pipe, "-np", "1", "true"});
  CHECK(unread.exit_code == 64);
  CHECK(has(unread.err, "--events: " + pipe + ": a pipe that nobody reads, or a socket"));
}

TEST_CASE("ps and status find the job, and only while it runs", "[summary]") {
  const auto marker = fresh_marker();
  Background job({.args = {build_path("hvdrun"), "-np", "2", "sh", "-c", "echo up; exec sleep 300"},
                  .env = {marker}});
  job.wait_for_output("[0]<stdout>:up", 10s);
  job.wait_for_output("[1]<stdout>:up", 10s);
  const RunResult ps = hvdrun({"ps"});
  CHECK(ps.exit_code == 0);
  // Other jobs may run on this machine: ours is the one with our driver.
  std::string id;
  std::istringstream lines(ps.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string job_id;
    std::string pid;
    words >> job_id >> pid;
    if (pid == std::to_string(job.pid())) id = job_id;
  }
  REQUIRE(id.size() == 8);
  RunResult status = hvdrun({"status", id});
  CHECK(status.exit_code == 0);
  // The shell may still be about to become a sleep.
  for (int i = 0; i < 100 && !has(status.out, "sleeping"); ++i) status = hvdrun({"status", id});
  CHECK(has(status.out, "2 ranks of sh -c"));
  CHECK(has(status.out, "  rank 1 on localhost: started, pid "));
  CHECK(has(status.out, "sleeping"));
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(5s) == 143);
  const RunResult gone = hvdrun({"status", id});
  CHECK(gone.exit_code == 64);
  CHECK(has(gone.err, "no running job begins with '" + id + "'"));
}

}  // namespace
}  // namespace hvdrun::test
