// Collectives of libhvd between hosts.
#include <cstdio>
#include <fstream>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/host_job.h"
#include "tests/integration/helpers/run_program.h"

using namespace hvdrun;
using namespace hvdrun::test;

TEST_CASE("collectives of libhvd run across hosts", "[cluster][collectives]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  // From a host with ranks, and from one without.
  for (const char* const hosts : {"node1:3,node2:1,node3:2", "node2:2,node3:1"}) {
    const RunResult result =
        cluster.hvdrun_on("node1", {"-H", hosts, worker_probe(), "collectives"});
    CAPTURE(hosts, result.out, result.err);
    CHECK(result.exit_code == 0);
  }
  const RunResult again =
      cluster.hvdrun_on("node1", {"-H", "node1:1,node2:2", worker_probe(), "again"});
  CAPTURE(again.out, again.err);
  CHECK(again.exit_code == 0);
}

TEST_CASE("with --encrypt-data nobody on the wire reads what ranks send",
          "[cluster][collectives]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(2);
  const std::string stop = cluster.folder() + "/stop";
  // Rank 0's part of the probe's first allreduce: 1 as int64, many times.
  std::string ones;
  for (int i = 0; i < 8; ++i) ones += "0100000000000000";
  const auto seen = [&](std::vector<std::string> words) {
    Background wire(
        {.args = cluster.on("node2", {"python3", source_path("tests/cluster/watch_wire.py"), "eth0",
                                      stop, ones})});
    wire.wait_for_output("watching", std::chrono::seconds(20));
    words.insert(words.end(), {"-H", "node1:1,node2:1", worker_probe(), "collectives"});
    const RunResult result = cluster.hvdrun_on("node1", words);
    CAPTURE(result.out, result.err);
    CHECK(result.exit_code == 0);
    std::ofstream(stop).flush();
    std::string said = wire.wait_for_output("with them", std::chrono::seconds(20));
    std::remove(stop.c_str());
    return said;
  };
  const std::string plain = seen({});
  CAPTURE(plain);
  CHECK_FALSE(contains(plain, ", 0 with them"));
  const std::string encrypted = seen({"--encrypt-data"});
  CAPTURE(encrypted);
  CHECK(contains(encrypted, ", 0 with them"));
  CHECK_FALSE(contains(encrypted, "\n0 packets"));
}
