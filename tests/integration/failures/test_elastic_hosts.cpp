// Hosts that come and go while an elastic job runs. With --transport local each host is an agent of
// this machine; over ssh: tests/cluster/test_listed_hosts.cpp.
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <signal.h>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/listed_job.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

TEST_CASE("a host that is told to go leaves at a commit, and no step is lost", "[elastic][hosts]") {
  ListedJob job("a:1\nb:2\n");
  const bool is_listed = GENERATE(true, false);
  if (is_listed)
    job.start({"-np", "3", "--min-np", "1"}, job.probe());
  else
    job.start_with({"-np", "3", "--min-np", "1", "-H", "a:1,b:2"}, job.probe());
  job.wait_for("step 5 rank 1 of 3");
  // To all processes of the host but its ranks, as Slurm and Kubernetes do.
  std::set<pid_t> agents;
  for (const ProcessInfo& rank : job.ranks())
    if (rank.environ.find("HVD_HOSTNAME=b") != std::string::npos) agents.insert(rank.parent);
  REQUIRE(agents.size() == 1);
  for (const ProcessInfo& process : all_processes())
    if (process.pid == *agents.begin()) kill(process.parent, SIGTERM);
  kill(*agents.begin(), SIGTERM);
  job.wait_for("host b is told to go (SIGTERM)");
  job.wait_for("on b has left: 1 go on without it", 2);
  job.wait_for("of 1: ", 5);
  CHECK_FALSE(Contains("was killed").match(job.output()));
  CHECK(times_in(job.output(), "is told to go") == 1);
  job.check_end();
}

TEST_CASE("hosts come to a job, and leave it, and no step is lost", "[elastic][hosts]") {
  ListedJob job("a:2\n");
  const std::string overlap = GENERATE("", "export PROBE_OVERLAP=100000; ");
  job.start({"-np", "2", "--min-np", "1"}, job.probe(overlap));
  job.wait_for("step 2 rank 1 of 2");
  job.list("a:2\nb:1\n");
  job.wait_for("the job goes on with 3 ranks");
  CHECK_THAT(job.output(), Contains("host b has come"));
  // More slots on a host that is there, fewer on the other.
  job.list("b:2\na:1\n");
  job.wait_for("on a has left: ");
  job.wait_for("the job goes on with 3 ranks", 2);
  // None of the old hosts stays: the state goes from rank to rank.
  job.list("c:2\n");
  job.wait_for("on b has left: 2 go on without it", 2);
  job.list("a:1\nc:2\n");
  job.wait_for("the job goes on with 3 ranks", 3);
  job.check_end();
  CHECK(times_in(job.output(), "done: ") == 3);
  // Each began with the state of the others.
  CHECK(times_in(job.output(), "meeting at step 0: ") <= 2);
  CHECK_THAT(job.output(), !Contains("is lost") && !Contains("started again"));
  CHECK_THAT(job.output(), !Contains("another state"));
  CHECK((times_in(job.output(), "counts nothing in step ") > 0) == !overlap.empty());
}

TEST_CASE("a hostfile is read again where --max-np lets hosts come", "[elastic][hosts]") {
  ListedJob job("a slots=1\nb slots=1\n");
  job.start_with({"-np", "2", "--min-np", "1", "--max-np", "3", "--hostfile", job.path()},
                 job.probe());
  job.wait_for("step 2 rank 1 of 2");
  job.list("a slots=1\nb slots=4\n");
  job.wait_for("rank 2 of 3");
  job.check_end();
  CHECK_THAT(job.output(), !Contains("of 4"));
}

// The job of this driver, as hvdrun ps lists it.
std::string job_of(pid_t driver) {
  const RunResult ps = hvdrun({"ps"});
  std::istringstream lines(ps.out);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string id;
    std::string pid;
    words >> id >> pid;
    if (pid == std::to_string(driver)) return id;
  }
  return "none";
}

TEST_CASE("hosts are added and taken by hand", "[elastic][hosts]") {
  ListedJob job("");
  job.start_with({"-np", "2", "--min-np", "1", "--max-np", "4", "-H", "a:1,b:1"}, job.probe());
  job.wait_for("step 2 rank 1 of 2");
  const std::string id = job_of(job.pid());
  const auto hosts = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"hosts", id});
    return hvdrun(words);
  };
  const RunResult added = hosts({"add", "c:1,d"});
  CHECK(added.exit_code == 0);
  CHECK(added.out == "4 hosts with 4 slots now\n");
  job.wait_for("rank 3 of 4");
  CHECK(hosts({"drain", "b", "c"}).out == "2 hosts with 2 slots now\n");
  job.wait_for("has left: 2 go on without it");
  CHECK_THAT(job.output(), !Contains("was killed"));
  CHECK(hosts({"remove", "d"}).exit_code == 0);
  job.wait_for("it was to leave anyway");
  job.wait_for("rank 0 of 1");
  for (const auto& [words, fault] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"drain", "e"}, "hvdrun: the job has no host e\n"},
           {{"drain", "a"}, "hvdrun: the job would have no host; end it instead\n"},
           {{"add", "a:x"}, "hvdrun: 'a:x': "},
           {{"add"}, "hvdrun: write hvdrun hosts [JOB] add|drain|remove HOST[:SLOTS]"},
           {{"take", "a"}, "hvdrun: write hvdrun hosts"}}) {
    CAPTURE(words);
    const RunResult refused = hosts(words);
    CHECK(refused.exit_code == 64);
    CHECK_THAT(refused.err, Catch::StartsWith(fault));
  }
  CHECK_THAT(hvdrun({"reload", id}).err, Contains("no list of hosts that could be read again"));
  CHECK(hvdrun({"status", id}).exit_code == 0);
  job.check_end();
}

TEST_CASE("hosts of a job that does not let them change", "[elastic][hosts]") {
  Background job(RunOptions{
      .args = {build_path("hvdrun"), "-np", "1", "sh", "-c", "echo up; exec sleep 100"}});
  job.wait_for_output("up", 30s);
  const RunResult refused = hvdrun({"hosts", job_of(job.pid()), "add", "b:1"});
  CHECK(refused.exit_code == 64);
  CHECK(refused.err == "hvdrun: the hosts of this job are fixed; --max-np N lets them change\n");
}

// horovodrun has to be told so there.
TEST_CASE("an elastic job of this machine may name the loopback interface", "[elastic][hosts]") {
  const RunResult job =
      hvdrun({"-np", "1", "--host-discovery-script", "echo localhost:1", "--network-interfaces",
              "lo", "sh", "-c", "echo $HOROVOD_GLOO_IFACE"});
  CHECK(job.exit_code == 0);
  CHECK(job.err.empty());
  CHECK(job.out == "[0]<stdout>:lo\n");
}

TEST_CASE("a file of hosts that is read at the user's word counts at once", "[elastic][hosts]") {
  ListedJob job("a slots=1\nb slots=1\n");
  job.start_with({"-np", "2", "--min-np", "1", "--max-np", "3", "--hostfile", job.path()},
                 job.probe());
  job.wait_for("step 2 rank 1 of 2");
  job.list("a slots=2\nb slots=1\n");
  CHECK(hvdrun({"reload", job_of(job.pid())}).out == job.path() + " is read again\n");
  job.wait_for("rank 2 of 3");
  job.check_end();
}

TEST_CASE("a script that does what it should not ends no job", "[elastic][hosts]") {
  ListedJob job("echo a:2\n");
  job.start({"-np", "2"}, job.probe(), "sh");
  job.wait_for("step 1 rank 1 of 2");
  const auto now = [&](const std::string& script, const std::string& words) {
    job.list(script);
    job.wait_for(words);
  };
  now("", "lists no host; the hosts stay as they are");
  now("exit 7", "exited with code 7; the hosts");
  now("echo no pods >&2; exit 7", "exited with code 7: no pods; the hosts");
  now("echo a:0x", "lists 'a:0x', which is no host");
  now("kill -9 $$", "exited with code 137");  // of the shell that it runs below
  // A process that it leaves behind ends with it, each time.
  job.list("echo a:2; sleep 300 & exit 0");
  std::this_thread::sleep_for(3s);
  CHECK(times_in(job.output(), "lists no host") == 1);
  job.check_end();
  CHECK_THAT(job.output(), !Contains("epoch 2"));
}

TEST_CASE("a newcomer that never comes holds nobody up", "[elastic][hosts]") {
  ListedJob job("a:1\nb:1\n");
  job.start({"-np", "2", "--min-np", "1"}, job.probe("[ $HVD_RANK -lt 2 ] || exec sleep 1000; "));
  job.wait_for("step 2 rank 1 of 2");
  job.list("a:1\nb:1\nc:1\n");
  job.wait_for("host c has come");
  std::this_thread::sleep_for(2s);
  job.check_end();
  CHECK_THAT(job.output(), !Contains("epoch 2"));
}

TEST_CASE("a newcomer that fails each time is left out, and costs nothing", "[elastic][hosts]") {
  ListedJob job("a:2\n");
  job.start({"-np", "2", "--min-np", "1"}, job.probe("[ $HVD_RANK -lt 2 ] || exit 3; "));
  job.wait_for("step 2 rank 1 of 2");
  job.list("a:2\nb:1\n");
  job.wait_for("it is not started again, as that was 3 times within 10 minutes");
  job.check_end();
  CHECK_THAT(job.output(), !Contains("epoch 2"));
}

TEST_CASE("ranks that meet anew too often end the job", "[elastic][hosts]") {
  ListedJob job("a:1\nb:1\n");
  job.start({"-np", "2", "--min-np", "1", "--reset-limit", "1"}, job.probe());
  job.wait_for("step 2 rank 1 of 2");
  job.list("a:1\nb:1\nc:1\n");
  job.wait_for("the job goes on with 3 ranks");
  job.list("a:1\nb:1\n");
  job.wait_for("--reset-limit allows that 1 time");
  job.check_end(85);
  CHECK_THAT(job.output(),
             Contains("--reset-limit allows that 1 time; hosts have come or gone; the job was"));
}

TEST_CASE("hosts come and go at random, ranks are killed, and no step is lost",
          "[elastic][hosts]") {
  if (!takes_turn(2)) return;
  const std::uint64_t seed = soak_seed("hosts that come and go");
  const int rounds = soak_count(100) >= 100 ? 100 : 2;
  std::mt19937_64 random(seed);
  const auto below = [&random](std::uint64_t end) { return random() % end; };
  for (int round = 0; round < rounds; ++round) {
    ListedJob job("a:2\nb:1\n");
    job.start({"-np", "3", "--min-np", "1", "--max-np", std::to_string(2 + below(5) + 1),
               "--elastic-timeout", "30"},
              job.probe(below(2) == 0 ? "" : "export PROBE_OVERLAP=100000; "));
    job.wait_for("step 2 rank 0 of 3");
    std::string done;
    for (int change = 0; change < 5; ++change) {
      std::string hosts;
      for (const char* const host : {"a", "b", "c", "d"})
        if (below(2) == 0) hosts += host + (":" + std::to_string(1 + below(2))) + "\n";
      job.list(hosts);
      done += "list " + std::regex_replace(hosts, std::regex("\n"), " ") + "; ";
      // Changes of hosts and losses may meet, but somebody has to have the state: newcomers need a
      // moment to take it.
      std::this_thread::sleep_for(std::chrono::milliseconds(500 + below(2500)));
      const std::size_t epochs = job.epochs();
      std::this_thread::sleep_for(300ms);
      const auto ranks = job.ranks();
      if (below(3) != 0 || job.epochs() != epochs || job.ranks_of_the_moment() < 3 ||
          ranks.size() < 3)
        continue;
      ::kill(ranks[below(ranks.size())].pid, SIGKILL);
      done += "kill; ";
    }
    INFO(done);
    std::cout << "round " << round << ": " << done << "\n";
    job.check_end();
  }
}

}  // namespace
}  // namespace hvdrun::test
