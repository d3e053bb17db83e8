// Elastic programs of Horovod: members that speak its protocol (programs/horovod_elastic.py) on
// hosts that come and go. Each step of theirs adds one to a weight, so no step is lost or done
// twice if the weight is the number of steps.
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/listed_job.h"
#include "tests/integration/helpers/text.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using Catch::Matchers::Contains;
using std::chrono::seconds;

// `before`: words of a shell in front of it.
std::vector<std::string> trainer(const ListedJob& job, const std::string& before = "",
                                 const std::string& import = "0") {
  return {"sh",
          "-c",
          before + "exec \"$@\"",
          "sh",
          "python3",
          source_path("tests/integration/programs/horovod_elastic.py"),
          job.stop_path(),
          "import",
          import};
}

// "b.0": the rank kills itself in its next step.
void have_killed(const ListedJob& job, const std::string& who) {
  std::ofstream(job.stop_path() + "." + who) << "now";
}

// It stops, and each rank has done each step.
void check_weights(ListedJob& job, int ranks) {
  job.check_stop();
  const std::string& out = job.output();
  const std::regex line("done at step (\\d+): rank \\d+ of (\\d+), weight (\\d+)");
  int done = 0;
  for (auto it = std::sregex_iterator(out.begin(), out.end(), line); it != std::sregex_iterator();
       ++it, ++done) {
    CHECK((*it)[1] == (*it)[3]);
    CHECK((*it)[2] == std::to_string(ranks));
  }
  CHECK(done == ranks);
  CHECK(out.find("wrong digest") == out.npos);
}

TEST_CASE("a Horovod program takes hosts in and leaves others, and nobody waits for a start",
          "[horovod][elastic]") {
  ListedJob job("a:2\n");
  job.start({"-np", "2", "--min-np", "1"}, trainer(job, "", "1.5"));
  job.wait_for("step 5 of 2");
  job.list("a:2\nb:2\n");
  job.wait_for("host b has come");
  const std::size_t before = times_in(job.output(), " of 2: ");
  job.wait_for("begins at step", 2);
  job.wait_for("epoch 2: the job goes on with 4 ranks");
  // While the newcomers loaded their program the others have trained.
  CHECK(times_in(job.output(), " of 2: ") > before + 10);
  CHECK_THAT(job.output(), Contains("notice 1 mixed"));
  // A slot less on one host, another host, and none of the old rank 0's in the end.
  job.list("b:2\na:1\n");
  job.wait_for("epoch 3: the job goes on with 3 ranks");
  job.list("b:2\nc:1\n");
  job.wait_for("rank 0 on a has left: ");
  job.wait_for("host c has come");
  job.wait_for(" of 3 on c");
  check_weights(job, 3);
}

TEST_CASE("a loss leaves out the host of a Horovod program's rank, for a time",
          "[horovod][elastic]") {
  ListedJob job("a:2\nb:2\n");
  const bool kills = GENERATE(true, false);
  job.start({"-np", "4", "--min-np", "2", "--blacklist-cooldown-range", "2", "4"}, trainer(job));
  job.wait_for("step 5 of 4");
  have_killed(job, kills ? "a.0" : "exit.a.0");
  job.wait_for(kills ? "rank 0 was killed by signal 9 (SIGKILL); no rank is started on a for 2 s"
                     : "rank 0 exited with code 3; no rank is started on a for 2 s");
  job.wait_for("epoch 2: the job goes on with 2 ranks");
  // Rank 0 is one that has the state.
  job.wait_for("rank 0 of 2 on b");
  job.wait_for("epoch 3: the job goes on with 4 ranks");
  job.wait_for("rank 2 of 4 on a");
  check_weights(job, 4);
}

TEST_CASE("a Horovod program on one host ends with its first loss, and is told so",
          "[horovod][elastic]") {
  ListedJob job("");
  job.start_with({"-np", "2", "--min-np", "1", "-H", "a:2"}, trainer(job));
  job.wait_for("step 5 of 2");
  CHECK_THAT(job.output(), Contains("all ranks are on one, so the first loss ends this job"));
  have_killed(job, "a.1");
  job.check_exit(137);
  CHECK_THAT(job.output(), Contains("hvdrun: rank 1 on a (pid "));
}

TEST_CASE("a fixed list of hosts is enough for a Horovod program to go on", "[horovod][elastic]") {
  ListedJob job("");
  job.start_with({"-np", "3", "--min-np", "1", "-H", "a:1,b:2"}, trainer(job));
  job.wait_for("step 5 of 3");
  have_killed(job, "b.1");
  job.wait_for("epoch 2: the job goes on with 1 rank");
  have_killed(job, "a.0");
  job.check_exit(137);
  CHECK_THAT(job.output(), Contains("hvdrun: slot 0 on a (pid "));
}

TEST_CASE("too few hosts are left for a Horovod program", "[horovod][elastic]") {
  ListedJob job("a:1\nb:1\n");
  job.start({"-np", "2", "--min-np", "2", "--elastic-timeout", "2"}, trainer(job));
  job.wait_for("step 5 of 2");
  have_killed(job, "b.0");
  job.check_exit(83);
  CHECK_THAT(job.output(), Contains("there is 1 rank of the 2 that --min-np asks for"));
}

TEST_CASE("after a leave that leaves too few all share their state with who comes",
          "[horovod][elastic]") {
  ListedJob job("a:1\nb:1\n");
  job.start({"-np", "2", "--min-np", "2"}, trainer(job));
  job.wait_for("step 5 of 2");
  // Nobody who is there may be spared before somebody else has come.
  job.list("b:1\n");
  job.wait_for("1 host with 1 slot now");
  job.list("b:1\nc:1\nd:1\n");
  job.wait_for("has left: ");
  job.wait_for("rank 2 of 3 on d");
  check_weights(job, 3);
}

TEST_CASE("newcomers of a Horovod program that fail or hang cost the others nothing",
          "[horovod][elastic]") {
  if (!takes_turn(2)) return;
  ListedJob job("a:1\n");
  job.start(
      {"-np", "1", "--min-np", "1"},
      trainer(job, "case $HOROVOD_HOSTNAME in b) exit 4;; c) sleep 1000;; d) sleep 1;; esac; "));
  job.wait_for("step 5 of 1");
  job.list("a:1\nc:1\n");
  job.wait_for("host c has come");
  // d is started for an epoch that b is to be in as well; it is started again without.
  job.list("a:1\nc:1\nb:1\nd:1\n");
  job.wait_for("exited with code 4; no rank is started on b");
  const std::size_t before = times_in(job.output(), " of 1: ");
  job.wait_for(" on d", 1, seconds(90));  // c is waited for as long as for one that is just slow
  CHECK(times_in(job.output(), " of 1: ") > before);
  job.list("a:1\nd:1\n");
  job.wait_for("step", times_in(job.output(), "step") + 5);
  check_weights(job, 2);
}

TEST_CASE("a Horovod program meets anew only so often", "[horovod][elastic]") {
  ListedJob job("a:1\n");
  job.start({"-np", "1", "--min-np", "1", "--reset-limit", "1"}, trainer(job));
  job.wait_for("step 5 of 1");
  job.list("a:1\nb:1\n");
  job.wait_for("epoch 2: the job goes on with 2 ranks");
  job.wait_for("rank 1 of 2 on b");
  job.list("b:1\n");
  job.check_exit(85);
}

}  // namespace
}  // namespace hvdrun::test
