// Whoever of a job over several hosts is killed: who notices, what is said, and that nothing is
// left on any host.
#include "tests/catch.h"
#include "tests/cluster/host_job.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kFamily = "echo ready; setsid sleep 1000.75 & exec sleep 1000.75";

TEST_CASE("whoever is killed on whichever host, nothing is left on any", "[cluster][failure]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  struct Victim {
    const char* what;
    const char* host;
    const char* who;
    int exit_code;
    const char* said;
  };
  for (const Victim& victim :
       {Victim{"driver", "node1", "hvdrun", 137, ""},
        Victim{"coordinator", "node1", "hvd-coordinator", 70, "the coordinator is gone"},
        Victim{"guard of the first host", "node1", "hvd-guard", 69, "host node1 was lost"},
        Victim{"agent of the first host", "node1", "hvd-agent", 69, "host node1 was lost"},
        Victim{"guard of another host", "node2", "hvd-guard", 69, "host node2 was lost"},
        Victim{"agent of another host", "node2", "hvd-agent", 69, "host node2 was lost"},
        Victim{"ssh client", "node1", "ssh -T", 69, "host node2 was lost"},
        Victim{"sshd's session", "node2",
               has_sshd_session() ? "sshd-session: root@notty" : "sshd: root@notty", 69,
               "host node2 was lost"},
        Victim{"worker", "node2", "sleep 1000.75", 137, "rank 1 on node2 (pid "}}) {
    const std::string what = victim.what;
    const bool of_shell = what == "worker";
    HostJob job(
        cluster,
        {"--ssh", what == "ssh client" ? "openssh" : "auto", "-np", "2", "-H", "node1:1,node2:1",
         "sh", "-c", of_shell ? "echo ready; exec sleep 1000.75" : kFamily},
        2);
    job.begin();
    CHECK(job.kill(victim.host, victim.who));
    check_end(what, job.end({"node1", "node2"}, 10s), victim.exit_code, victim.said);
  }
  {
    HostJob job(
        cluster,
        {"-np", "2", "-H", "node2:2", "sh", "-c", "echo ready; exec " + worker_probe() + " loop"},
        2);
    job.wait_for("looping", 10s);
    job.begin();
    CHECK(job.kill("node2", worker_probe()));
    check_end("worker with libhvd", job.end({"node1", "node2"}, 10s), 137, " on node2 (pid ");
  }
  HostJob job(cluster, {"-np", "2", "-H", "node1:1,node3:1", "sh", "-c", kFamily}, 2);
  job.begin();
  cluster.act("poweroff", "node3");
  check_end("a whole host", job.end({"node1", "node3"}, 10s), 69, "host node3 was lost");
}

}  // namespace
}  // namespace hvdrun::test
