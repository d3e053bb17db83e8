// Training over several hosts: the same numbers as on one, and a rank that is killed in the middle.
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/integration/helpers/text.h"
#include "tests/integration/helpers/train_output.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

using Words = std::vector<std::string>;

// The reason why there can be none here; empty: there can.
std::string no_training() {
  if (::access(build_path("train").c_str(), X_OK) != 0)
    return "this build has no lab models (LibTorch, labs)";
  return Cluster::missing();
}

// Hosts share this machine's files.
std::string made_up(const TempFolder& folder, const std::string& kind, const std::string& train,
                    const std::string& test) {
  const RunResult made = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), kind,
                                       folder.path(), "--train", train, "--test", test}});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  return folder.path();
}

Words joined(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// A thread for each rank: with more of them sums may be added up in another order.
Words over(const std::string& ranks, const std::string& hosts) {
  return {"--env-compat", "torch", "-np", ranks, "-H", hosts, "-x", "OMP_NUM_THREADS=1"};
}

}  // namespace

TEST_CASE("ranks on three hosts train to the same bits as on one", "[cluster][train]") {
  if (!takes_turn(3)) return;
  if (const std::string reason = no_training(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  const TempFolder folder;
  const std::string data = made_up(folder, "mnist", "800", "200");
  const auto train = [&](const std::string& log) {
    return Words{build_path("train"),
                 "--model",
                 "mnist-cnn",
                 "--device",
                 "cpu",
                 "--data-dir",
                 data,
                 "--batch-size",
                 "10",
                 "--epochs",
                 "1",
                 "--seed",
                 "5",
                 "--loss-log",
                 log};
  };
  struct Spread {
    const char* ranks;
    const char* hosts;
    std::size_t steps;  // of 10 images at most for each rank
  };
  for (const Spread& spread :
       {Spread{"3", "node1:1,node2:1,node3:1", 27}, Spread{"5", "node1:2,node2:1,node3:2", 16}}) {
    const TempFolder out;
    const std::string spread_log = out.path() + "/spread";
    const std::string local_log = out.path() + "/local";
    const RunResult across =
        cluster.hvdrun_on("node1", joined(over(spread.ranks, spread.hosts), train(spread_log)));
    CAPTURE(spread.hosts, across.out, across.err);
    REQUIRE(across.exit_code == 0);
    // Rank 0 speaks for all.
    CHECK(times_in(across.out, "epoch 1/1 ") == 1);
    CHECK(contains(across.out, "[0]<stdout>:epoch 1/1 "));
    // On a host, too: its environment is another than this one's (OPENBLAS_CORETYPE, say).
    const std::string alone = std::string("localhost:") + spread.ranks;
    const RunResult here =
        cluster.hvdrun_on("node1", joined(over(spread.ranks, alone), train(local_log)));
    INFO(here.out << here.err);
    REQUIRE(here.exit_code == 0);
    const std::vector<std::string> losses = lines_of(spread_log);
    CHECK(losses.size() == spread.steps);
    CHECK(losses == lines_of(local_log));
  }
}

TEST_CASE("a loop of one's own trains on three hosts as on one", "[cluster][train]") {
  if (!takes_turn(3)) return;
  if (const std::string reason = no_training(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  const TempFolder folder;
  const std::string data = made_up(folder, "text", "400", "50");
  const Words tape = {build_path("train-tape"), data, "1"};
  const RunResult across =
      cluster.hvdrun_on("node1", joined(over("3", "node1:1,node2:1,node3:1"), tape));
  CAPTURE(across.out, across.err);
  REQUIRE(across.exit_code == 0);
  const RunResult here = cluster.hvdrun_on("node1", joined(over("3", "localhost:3"), tape));
  INFO(here.out << here.err);
  REQUIRE(here.exit_code == 0);
  // It prints no times: loss and accuracy of each epoch, by rank 0.
  CHECK(times_in(across.out, "epoch 1") == 1);
  CHECK(across.out == here.out);
}

TEST_CASE("a rank killed in the middle of training on three hosts is named", "[cluster][train]") {
  if (const std::string reason = no_training(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  const TempFolder folder;
  const std::string data = made_up(folder, "mnist", "800", "200");
  HostJob job(cluster,
              {"-np", "3", "-H", "node1:1,node2:1,node3:1", "-x", "OMP_NUM_THREADS=1", "sh", "-c",
               "echo ready; exec " + build_path("train") + " --device cpu --data-dir " + data +
                   " --batch-size 10 --epochs 100000 --log-interval 5"},
              3);
  job.wait_for("epoch 2  step 5/", 60s);
  job.begin();
  CHECK(job.kill("node2", "train"));
  const HostJobEnd end = job.end({"node1", "node2", "node3"}, 10s);
  check_end("a rank in training", end, 137, "rank 1 on node2 (pid ");
  INFO(end.said);
  CHECK(contains(end.said, "SIGKILL"));
}

}  // namespace hvdrun::test
