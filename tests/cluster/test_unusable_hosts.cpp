// Hosts on which nothing can be started: full ones, slow ones, some that are no ssh server at all.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// node2 with many names, each with a way of its own to be of no use. A login shell of its own makes
// most of them.
class StrangeHosts {
 public:
  explicit StrangeHosts(const Cluster& cluster) : cluster_(cluster) {
    const std::string ssh = cluster.home("node1") + "/.ssh/";
    run({.args = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh + "stranger"}});
    config_.open(ssh + "config");
    alias("stranger", "IdentitiesOnly yes\nIdentityFile " + ssh + "stranger\n");
    serve("noisy", "2201", "noise");
    serve("silent", "2202", "silence");
    shell("endless", "yes 'Welcome to this host!'");
    shell("broken", "echo 'this account is closed' >&2; exit 1");
    const std::string full = folder("full");
    cluster.run_on("node2", {"mount", "-t", "tmpfs", "-o", "size=256k", "none", full});
    shell("full", "export HOME=" + full + " TMPDIR=" + full + "; exec /bin/sh \"$@\"");
    const std::string home = cluster.folder() + "/home-of-halffull";
    fs::create_directory(home);
    shell("halffull",
          "export XDG_CACHE_HOME=" + full + " TMPDIR=" + home + "; exec /bin/sh \"$@\"");
    shell("slow", "sleep 10; exec /bin/sh \"$@\"");
    // An sshd of a user that may have so many processes, since root has no limit.
    ::chmod(cluster.folder().c_str(), 0711);
    for (const char* const limit : {"1", "3"}) {
      const std::string name = std::string("crowded") + limit;
      const std::string user = std::to_string(64'000 + ::getpid() % 1'000);
      const std::string own = folder("home-of-" + name);
      fs::create_directory(own);
      run({.args = {"chown", user, own}});
      shell(name, "export HOME=" + own + "; exec prlimit --nproc=" + limit + " setpriv --reuid " +
                      user + " --regid " + user + " --clear-groups /bin/sh \"$@\"");
    }
    config_.close();
  }

 private:
  std::string folder(const std::string& name) const {
    std::string path = cluster_.folder() + "/" + name;
    fs::create_directory(path);
    return path;
  }
  void alias(const std::string& name, const std::string& settings) {
    config_ << "Host " << name << "\nHostName node2\nHostKeyAlias node2\n" << settings;
  }
  void shell(const std::string& name, const std::string& script) {
    const std::string file = cluster_.folder() + "/shell-of-" + name;
    std::ofstream(file) << "#!/bin/sh\n" << script << "\n";
    ::chmod(file.c_str(), 0755);
    std::ofstream(cluster_.folder() + "/node2/passwd", std::ios::app)
        << name << ":x:0:0::" << cluster_.home("node2") << ":" << file << "\n";
    alias(name, "User " + name + "\n");
  }
  void serve(const std::string& name, const std::string& port, const std::string& manner) {
    servers_.push_back(std::make_unique<Background>(
        RunOptions{.args = cluster_.on(
                       "node2", {"/usr/bin/python3", source_path("tests/cluster/bad_ssh_server.py"),
                                 port, manner})}));
    servers_.back()->wait_for_output("ready", 10s);
    alias(name, "Port " + port + "\n");
  }

  const Cluster& cluster_;
  std::ofstream config_;
  std::vector<std::unique_ptr<Background>> servers_;
};

TEST_CASE("hosts of no use are all named, each with its reason", "[cluster][failure]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(2);
  const StrangeHosts hosts(cluster);
  const RunResult result = cluster.hvdrun_on(
      "node1", {"--start-timeout", is_sanitized() ? "8" : "3", "-np", "9", "-H",
                "node1:1,stranger:1,noisy:1,silent:1,endless:1,broken:1,full:1,crowded1:1,slow:1",
                "echo", "started"});
  std::printf("nine hosts, eight of no use: exit code %d after %lld ms\n%s", result.exit_code,
              static_cast<long long>(result.time.count()), result.err.c_str());
  std::fflush(stdout);
  INFO(result.err);
  CHECK(result.exit_code == 69);
  CHECK_FALSE(contains(result.out, "started"));
  CHECK(contains(result.err, "host stranger (connecting): "));
  CHECK(contains(result.err, "Permission denied (publickey"));
  // Noise may look like the begin of something for a while, or like one who hangs up: then it is
  // tried again, and the deadline finds it anywhere before the login.
  CHECK(contains(result.err, "host noisy ("));
  CHECK_FALSE(contains(result.err, "host noisy (logging in)"));
  CHECK(contains(result.err, "host silent (agreeing on keys): no answer in time"));
  CHECK(contains(result.err, "host endless (starting a shell): no answer in time"));
  CHECK(contains(result.err, "host broken (starting a shell): this account is closed"));
  CHECK(
      contains(result.err, "host full (starting a shell): neither ~/.cache nor /tmp there can be"));
  CHECK(contains(result.err, "host crowded1 (starting a shell): "));
  CHECK(contains(result.err, "Cannot fork"));
  CHECK(contains(result.err, "host slow (starting a shell): no answer in time"));
  CHECK(contains(result.err, "to see it by hand: ssh silent true"));
  CHECK_FALSE(contains(result.err, "host node1 ("));
  CHECK(result.time < 20s);
  for (const char* const host : {"node1", "node2"})
    CHECK(cluster.processes_of_job(host, "no marker").empty());

  // With room in one of the two folders, and processes for one rank of two.
  CHECK(cluster.hvdrun_on("node1", {"-np", "1", "-H", "halffull:1", "true"}).exit_code == 0);
  if (!is_sanitized()) {  // whose own threads do not come through
    const RunResult crowded =
        // Its user may have no way into the folder that this runs in.
        cluster.hvdrun_on("node1",
                          {"-np", "2", "-H", "crowded3:2", "--chdir", "/", "sleep", "1000.25"});
    INFO(crowded.err);
    CHECK(crowded.exit_code == 75);
    CHECK(contains(crowded.err, "rank 1 on crowded3 could not start: "));
    CHECK(contains(crowded.err, "Resource temporarily unavailable"));
  }

  if (soak_count(1) == 0) return;
  const RunResult slow = cluster.hvdrun_on("node1", {"-np", "1", "-H", "slow:1", "true"});
  std::printf("a host that takes 10 s to answer: exit code %d after %lld ms\n%s", slow.exit_code,
              static_cast<long long>(slow.time.count()), slow.err.c_str());
  CHECK(slow.exit_code == 0);
  CHECK(slow.time > 9s);
  CHECK(contains(slow.err, "still waiting for slow (starting a shell)"));
}

}  // namespace
}  // namespace hvdrun::test
