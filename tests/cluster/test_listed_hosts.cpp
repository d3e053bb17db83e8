// Hosts that a script lists while the job runs, opened over ssh.
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/turns.h"

namespace hvdrun::test {

using namespace std::chrono_literals;

TEST_CASE("hosts that a script lists join and leave a job over ssh", "[cluster][elastic]") {
  if (!takes_turn(2)) return;
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  // The job may begin on other hosts, or on hvdrun's own alone.
  const std::string first = GENERATE("node2:1\n", "node1:1\n");
  CAPTURE(first);
  const std::filesystem::path hosts = cluster.folder() + "/hosts";
  const auto list = [&](const std::string& text) {
    const std::string next = hosts.string() + ".next";
    std::ofstream(next) << text;
    std::filesystem::rename(next, hosts);
  };
  list(first);
  HostJob job(
      cluster,
      {"-np", "1", "--host-discovery-script", "cat " + hosts.string(), "--lease", "3", "sh", "-c",
       "echo ready; exec " + build_path("tests/integration/programs/elastic_probe") + " 500 40"},
      1);
  job.wait_for("step 2 rank 0 of 1", 30s);
  list(first + "node3:2\n");
  job.wait_for("host node3 has come", 20s);
  job.wait_for("the job goes on with 3 ranks", 20s);
  // The ranks of the first host go; what they know is with the others.
  list("node3:2\n");
  job.wait_for("has left: 2 go on without it", 20s);
  job.wait_for("rank 1 of 2", 20s);
  if (first == "node2:1\n") {
    // Its agent and guard go as well, and it is opened anew.
    const auto begin = HostJob::Clock::now();
    while (!cluster.processes_of_job("node2", "no such marker").empty() &&
           HostJob::Clock::now() - begin < 10s) {
    }
    std::string left;
    for (const ProcessInfo& process : cluster.processes_of_job("node2", "no such marker"))
      left += process.name + ": " + process.cmdline + "\n";
    CHECK(left.empty());
  }
  list("node3:2\n" + first);
  job.wait_for("the job goes on with 3 ranks", 20s, 2);
  std::ofstream(cluster.folder() + "/stop") << "now";
  job.begin();
  const HostJobEnd end = job.end({"node1", "node2", "node3"}, 60s);
  INFO(end.said);
  CHECK(end.exit_code == 0);
  CHECK(end.left.empty());
  const std::regex line("step (\\d+) rank \\d+ of \\d+: ([0-9.]+)");
  for (auto it = std::sregex_iterator(end.said.begin(), end.said.end(), line);
       it != std::sregex_iterator(); ++it)
    CHECK((*it)[1] == (*it)[2]);
  CHECK(std::regex_search(end.said, std::regex("done: rank \\d of 3 has")));
  CHECK(end.said.find("is lost") == std::string::npos);
}

}  // namespace hvdrun::test
