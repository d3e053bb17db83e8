// A job that starts again (--max-restarts) after the loss of a host.
#include "tests/catch.h"
#include "tests/cluster/host_job.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

// Ranks of the first start go on for long, those of others say where they are.
std::vector<std::string> job_with(std::vector<std::string> options) {
  const std::vector<std::string> program{"sh", "-c",
                                         "echo ready; [ $HVD_RESTART_COUNT = 0 ] && exec sleep "
                                         "1000.75; echo $HVD_RANK of $HVD_SIZE on "
                                         "$HVD_HOSTNAME"};
  options.insert(options.end(), {"--max-restarts", "3", "--lease", "2"});
  options.insert(options.end(), program.begin(), program.end());
  return options;
}

TEST_CASE("a job starts again on the hosts that are left, or on all", "[cluster][restarts]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  {
    HostJob job(cluster, job_with({"-np", "3", "-H", "node1:1,node2:1,node3:1"}), 3);
    REQUIRE(job.kill("node2", "hvd-agent"));
    job.begin();
    const HostJobEnd end = job.end({"node1", "node2", "node3"}, 30s);
    print_row("agent of node2 killed, the job starts again", end);
    INFO(end.said);
    CHECK(end.exit_code == 0);
    CHECK(end.left.empty());
    CHECK(contains(end.said, "host node2 was lost"));
    CHECK(contains(end.said, "hvdrun: restart 1 of 3 in 1 s\n"));
    for (const char* const place : {"0 of 3 on node1", "1 of 3 on node2", "2 of 3 on node3"})
      CHECK(contains(end.said, place));
  }
  HostJob job(cluster, job_with({"-np", "3", "--min-np", "2", "-H", "node1:1,node2:1,node3:1"}), 3);
  cluster.act("cut", "node2");
  cluster.act("poweroff", "node2");
  job.begin();
  const HostJobEnd end = job.end({"node1", "node3"}, 30s);
  print_row("node2 without power, the job starts again without it", end);
  INFO(end.said);
  CHECK(end.exit_code == 0);
  CHECK(end.left.empty());
  CHECK(contains(end.said, "host node2 was lost"));
  for (const char* const place : {"0 of 2 on node1", "1 of 2 on node3"})
    CHECK(contains(end.said, place));
}

}  // namespace
}  // namespace hvdrun::test
