// Jobs over several hosts, opened by ssh.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/host_job.h"

using namespace hvdrun;
using namespace hvdrun::test;
using namespace std::chrono_literals;

namespace {

#define NEEDS_CLUSTER()                                                 \
  if (const std::string reason = Cluster::missing(); !reason.empty()) { \
    WARN("left out: " << reason);                                       \
    return;                                                             \
  }

// Nothing whose command line fits runs any more on the host.
bool gone_from(const Cluster& cluster, const std::string& host, const std::string& pattern,
               std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (std::chrono::steady_clock::now() < deadline)
    if (cluster.run_on(host, {"pgrep", "-f", pattern}).exit_code == 1) return true;
  return false;
}

}  // namespace

TEST_CASE("ranks run on several hosts, with nothing installed there", "[cluster]") {
  NEEDS_CLUSTER();
  const Cluster cluster(3);
  const std::string word = "echo $HVD_RANK $HVD_LOCAL_RANK $HVD_CROSS_RANK $(hostname) in $PWD";
  const std::vector<std::string> job{
      "-np", "5", "-H", "node1:2,node2:1,node3:2", "--tag-output", "off", "sh", "-c", word};
  const RunResult first = cluster.hvdrun_on("node1", job);
  CAPTURE(first.err);
  CHECK(first.exit_code == 0);
  const std::string in = " in " + std::filesystem::current_path().string();
  CHECK(set_of_lines(first.out) == std::set<std::string>{"0 0 0 node1" + in, "1 1 0 node1" + in,
                                                         "2 0 1 node2" + in, "3 0 2 node3" + in,
                                                         "4 1 1 node3" + in});
  // The agent was sent, for the user alone, and is found the next time.
  const auto stored = [&](const std::string& host) {
    std::vector<std::filesystem::path> files;
    for (const auto& file :
         std::filesystem::directory_iterator(cluster.home(host) + "/.cache/hvdrun"))
      files.push_back(file.path());
    return files;
  };
  REQUIRE(stored("node2").size() == 1);
  const std::string agent = stored("node2").front().string();
  struct stat before {};
  REQUIRE(::stat(agent.c_str(), &before) == 0);
  CHECK((before.st_mode & 07777) == 0700);
  CHECK(cluster.hvdrun_on("node1", job).exit_code == 0);
  struct stat after {};
  REQUIRE(::stat(agent.c_str(), &after) == 0);
  CHECK(after.st_ino == before.st_ino);
  CHECK_FALSE(std::filesystem::exists(cluster.home("node1") + "/.cache/hvdrun"));
  // Each host's own umask, however it is opened.
  for (const std::string ssh : {"libssh2", "openssh"}) {
    CAPTURE(ssh);
    const RunResult masks = cluster.run_on(
        "node1",
        {"sh", "-c",
         "umask 027; exec \"$0\" --ssh \"$1\" --tag-output off -np 2 -H node1:1,node2:1 sh "
         "-c 'echo $(hostname) $(umask)'",
         build_path("hvdrun"), ssh});
    CHECK(masks.exit_code == 0);
    const std::string there = cluster.run_on("node1", {"ssh", "node2", "umask"}).out;
    CHECK(set_of_lines(masks.out) ==
          std::set<std::string>{"node1 0027", "node2 " + there.substr(0, there.find('\n'))});
  }
  // One that is not what was sent is not run.
  std::filesystem::resize_file(agent, 100);
  CHECK(cluster.hvdrun_on("node1", job).exit_code == 0);
  CHECK(std::filesystem::file_size(agent) > 100'000);
  CHECK(stored("node2").size() == 1);
}

TEST_CASE("output, input and exit code go across hosts", "[cluster]") {
  NEEDS_CLUSTER();
  const Cluster cluster(2);
  const RunResult result = cluster.hvdrun_on(
      "node1", {"-np", "2", "-H", "node2:2", "sh", "-c",
                "echo out of $HVD_RANK; [ $HVD_RANK = 0 ] || exit 5; exec sleep 1000.5"});
  CHECK(result.exit_code == 5);
  CHECK(contains(result.out, "[0]<stdout>:out of 0\n"));
  CHECK(contains(result.out, "[1]<stdout>:out of 1\n"));
  CHECK(contains(result.err, "rank 1 on node2 (pid "));
  CHECK(contains(result.err, "exited with code 5"));
  CHECK(gone_from(cluster, "node2", "^sleep 1000.5", 2s));
  RunOptions input;
  input.args = cluster.on("node1", {build_path("hvdrun"), "--tag-output", "off", "--stdin", "1",
                                    "-np", "2", "-H", "node1:1,node2:1", "sh", "-c", "cat"});
  input.input = "over there\n";
  CHECK(run(input).out == "over there\n");
}

TEST_CASE("hosts that cannot be used are all named, with what ssh said", "[cluster]") {
  NEEDS_CLUSTER();
  const Cluster cluster(3);
  // A name that there is not, a host whose key is another than known, and one that is fine.
  const std::string known = cluster.home("node1") + "/.ssh/known_hosts";
  std::filesystem::remove(known);
  run({.args = {"sh", "-c",
                "sed 's/^node2,[^ ]*/node3/; t; d' " + cluster.home("node1") +
                    "/../../known_hosts > " + known + "; grep ^node2, " + cluster.home("node1") +
                    "/../../known_hosts | sed 's/^node2,[^ ]*/node2/' >> " + known}});
  const RunResult result = cluster.hvdrun_on(
      "node1", {"--ssh", "openssh", "--events", cluster.home("node1") + "/events", "-np", "4", "-H",
                "node1:1,nowhere:1,node3:1,node2:1", "sh", "-c", "echo started"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 69);
  CHECK_FALSE(contains(result.out, "started"));
  CHECK(contains(result.err, "host nowhere (connecting): ssh: Could not resolve hostname nowhere"));
  CHECK(contains(result.err, "host node3 (connecting): "));
  CHECK(contains(result.err, "Host key for node3 has changed"));
  CHECK(contains(result.err, "to see it by hand: ssh node3 true"));
  CHECK_FALSE(contains(result.err, "host node2"));
  CHECK(contains(run({.args = {"tail", "-n", "1", cluster.home("node1") + "/events"}}).out,
                 "host_lost"));
  CHECK(gone_from(cluster, "node2", "hvd-agent", 2s));

  // A key that nobody knows, and a host that ssh does not know yet.
  std::filesystem::remove(known);
  const RunResult unknown = cluster.hvdrun_on(
      "node1", {"--ssh", "openssh", "-np", "1", "-H", "node2:1", "echo", "started"});
  CHECK(unknown.exit_code == 69);
  CHECK(contains(unknown.err, "--accept-new-host-keys"));
  CHECK(cluster
            .hvdrun_on("node1", {"--ssh", "openssh", "--accept-new-host-keys", "-np", "1", "-H",
                                 "node2:1", "true"})
            .exit_code == 0);
  run({.args = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
                cluster.home("node1") + "/.ssh/stranger"}});
  const RunResult stranger = cluster.hvdrun_on(
      "node1", {"-i", cluster.home("node1") + "/.ssh/stranger", "--ssh-args",
                "-o IdentitiesOnly=yes", "-np", "1", "-H", "node2:1", "echo", "started"});
  CHECK(stranger.exit_code == 69);
  CHECK(contains(stranger.err, "Permission denied (publickey"));
}

TEST_CASE("the master that a ControlPersist has left behind outlives the job", "[cluster]") {
  NEEDS_CLUSTER();
  const Cluster cluster(3);
  std::ofstream(cluster.home("node1") + "/.ssh/config")
      << "Host node2\n  ProxyJump node3\n"
         "Host node3\n  ControlMaster auto\n  ControlPath ~/.ssh/master-%h\n  ControlPersist yes\n";
  for (const std::string local : {"", "node1:1,"}) {
    // With what a rank leaves behind: that is ended on both hosts.
    const RunResult result =
        cluster.hvdrun_on("node1", {"-np", local.empty() ? "1" : "2", "-H", local + "node2:1", "sh",
                                    "-c", "setsid sleep 1000.25 & echo done"});
    CAPTURE(local, result.err);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.out, "[0]<stdout>:done\n"));
    CHECK(cluster.run_on("node1", {"ssh", "-O", "check", "node3"}).exit_code == 0);
    for (const char* host : {"node1", "node2"})
      CHECK(gone_from(cluster, host, "^sleep 1000.25", 2s));
    CHECK(gone_from(cluster, "node1", "^ssh -T", 2s));
  }
  CHECK(cluster.run_on("node1", {"ssh", "-O", "exit", "node3"}).exit_code == 0);
}

TEST_CASE("an unmodified PyTorch program trains across hosts", "[cluster]") {
  NEEDS_CLUSTER();
  if (run({.args = {"/usr/bin/python3", "-c", "import torch"}}).exit_code != 0) {
    WARN("left out: no /usr/bin/python3 with torch (Debian's python3-torch)");
    return;
  }
  const Cluster cluster(2);
  const RunResult result = cluster.hvdrun_on(
      "node1", {"-np", "2", "-H", "node2:1,node1:1", "--tag-output", "off", "-x", "USE_LIBUV=0",
                "/usr/bin/python3", source_path("tests/integration/programs/ddp.py")});
  CAPTURE(result.err, result.out);
  CHECK(result.exit_code == 0);
  // Loss and weights of both, the same since gradients are averaged.
  const std::set<std::string> lines = set_of_lines(result.out);
  CHECK(lines.size() >= 1);
  std::set<std::string> weights;
  for (const std::string& line : lines) weights.insert(line.substr(line.find("weight ")));
  CHECK(weights.size() == 1);
}
