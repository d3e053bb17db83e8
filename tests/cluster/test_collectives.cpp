// Collectives of libhvd between hosts.
#include <catch2/catch.hpp>

#include "tests/cluster/cluster.h"
#include "tests/integration/run_program.h"

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
