// Elastic jobs over hosts: ranks that are killed and stopped, cables that are cut, at random.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <regex>
#include <signal.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

constexpr int kSteps = 120;

void pause_for(milliseconds time) { ::usleep(static_cast<useconds_t>(time.count() * 1000)); }

// A state is the number of its step on every rank, whatever was lost before.
void check_steps(const std::string& said) {
  const std::regex line("step (\\d+) rank \\d+ of \\d+: ([0-9.]+)");
  int last = 0;
  for (auto it = std::sregex_iterator(said.begin(), said.end(), line); it != std::sregex_iterator();
       ++it) {
    CHECK((*it)[1] == (*it)[2]);
    last = std::max(last, std::stoi((*it)[1]));
  }
  CHECK(last == kSteps);
}

class Faults {
 public:
  Faults(const Cluster& cluster, std::uint64_t seed) : cluster_(cluster), random_(seed) {}

  // One that the job survives; what it was.
  std::string do_some() {
    pause_for(milliseconds(200 + below(1000)));
    const std::string host = "node" + std::to_string(1 + below(3));
    switch (below(4)) {
      case 0:
      case 1:
        return send(host, SIGKILL) ? "kill on " + host : "";
      case 2:
        return send(host, SIGSTOP) ? "stop on " + host : "";
      default:
        cluster_.act("cut", host);
        pause_for(milliseconds(100 + below(800)));
        cluster_.act("heal", host);
        return "short cut of " + host;
    }
  }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

 private:
  bool send(const std::string& host, int signal) {
    std::vector<pid_t> ranks;
    for (const ProcessInfo& process : cluster_.processes(host))
      if (process.name == "elastic_probe") ranks.push_back(process.pid);
    if (ranks.empty()) return false;
    return ::kill(ranks[below(static_cast<std::uint32_t>(ranks.size()))], signal) == 0;
  }

  const Cluster& cluster_;
  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("ranks of three hosts are lost at random, and no step is", "[cluster][elastic]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const std::uint64_t seed = soak_seed("losses over three hosts");
  // Half an hour in the soak.
  const int rounds = soak_count(100) >= 100 ? 200 : 2;
  const Cluster cluster(3);
  Faults faults(cluster, seed);
  const std::vector<std::string> hosts{"node1", "node2", "node3"};
  for (int round = 0; round < rounds; ++round) {
    HostJob job(cluster,
                {"-np", "6", "-H", "node1:2,node2:2,node3:2", "--min-np", "2", "--lease", "3",
                 "--stall-check-warning-time-seconds", "1", "--stall-check-shutdown-time-seconds",
                 "2", "--elastic-timeout", "30", "sh", "-c",
                 "echo ready; exec " + build_path("tests/integration/programs/elastic_probe") +
                     " " + std::to_string(kSteps) + " 40"},
                6);
    job.wait_for("step 2 rank 0", 30s);
    std::string done;
    for (int fault = 0; fault < 3; ++fault) done += faults.do_some() + "; ";
    // A host that is away for good is lost, its guard ends what runs there.
    const bool loses_host = faults.below(3) == 0;
    if (loses_host) {
      done += "long cut of node3";
      cluster.act("cut", "node3");
    }
    job.begin();
    const HostJobEnd end = job.end(hosts, 90s);
    if (loses_host) cluster.act("heal", "node3");
    std::cout << "round " << round << ": " << done << "\n";
    INFO(done << "\n" << end.said);
    CHECK(end.exit_code == 0);
    CHECK(end.left.empty());
    check_steps(end.said);
    // A new connection is refused for a while after the cable is back.
    for (const char* host : {"node2", "node3"})
      cluster.run_on(
          "node1",
          {"bash", "-c", std::string("until : </dev/tcp/") + host + "/22; do sleep 0.1; done"});
  }
}

// In place of ssh: the second opening of node3 begins as any, and then does this.
std::string ssh_that_begins_and(const std::filesystem::path& folder, const std::string& does) {
  const std::filesystem::path path = folder / "ssh";
  const std::string count = (folder / "count").string();
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in *node3*)\n  echo >>" << count << "\n"
                      << "  if [ $(wc -l <" << count << ") = 2 ]; then\n"
                      << "    printf 'hvdrun: have\\nhvdrun: start\\n'; " << does << "\n"
                      << "  fi;;\nesac\nexec ssh \"$@\"\n";
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path;
}

TEST_CASE("an opening of a lost host that goes no further is followed by another",
          "[cluster][elastic]") {
  if (!takes_turn(2)) return;
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  for (const std::string does : {"exit 0", "exec sleep 60"}) {
    CAPTURE(does);
    std::string folder = (std::filesystem::temp_directory_path() / "hvd-ssh-XXXXXX").string();
    REQUIRE(::mkdtemp(folder.data()) != nullptr);
    HostJob job(
        cluster,
        {"--ssh", ssh_that_begins_and(folder, does), "-np", "4", "-H", "node2:2,node3:2",
         "--min-np", "2", "--start-timeout", "3", "--elastic-timeout", "30", "sh", "-c",
         "echo ready; exec " + build_path("tests/integration/programs/elastic_probe") + " 150 40"},
        4);
    job.wait_for("step 2 rank 0", 30s);
    job.begin();
    CHECK(job.kill("node3", "hvd-agent"));
    const HostJobEnd end = job.end({"node1", "node2", "node3"}, 60s);
    INFO(end.said);
    CHECK(end.exit_code == 0);
    CHECK(end.left.empty());
    CHECK(end.said.find("host node3 is back") != std::string::npos);
    CHECK(std::regex_search(end.said, std::regex("step 149 rank \\d of 4: 149")));
    std::filesystem::remove_all(folder);
  }
}

TEST_CASE("a lost host that answers again has its ranks again", "[cluster][elastic]") {
  if (!takes_turn(2)) return;
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const Cluster cluster(3);
  struct Loss {
    const char* what;
    const char* host;   // where its victim is
    const char* who;    // empty: the cable of node3 is cut, and healed
    const char* opens;  // --ssh
  };
  for (const Loss& loss :
       {Loss{"agent", "node3", "hvd-agent", "auto"}, Loss{"guard", "node3", "hvd-guard", "auto"},
        Loss{"session of sshd", "node3",
             has_sshd_session() ? "sshd-session: root@notty" : "sshd: root@notty", "auto"},
        Loss{"ssh client", "node1", "ssh -T", "openssh"}, Loss{"cable", "node3", "", "auto"}}) {
    CAPTURE(loss.what);
    HostJob job(
        cluster,
        {"--ssh", loss.opens, "-np", "4", "-H", "node2:2,node3:2", "--min-np", "2", "--lease", "2",
         "--elastic-timeout", "30", "sh", "-c",
         "echo ready; exec " + build_path("tests/integration/programs/elastic_probe") + " 200 40"},
        4);
    job.wait_for("step 2 rank 0", 30s);
    job.begin();
    if (*loss.who != 0) {
      CHECK(job.kill(loss.host, loss.who));
    } else {
      cluster.act("cut", loss.host);
      job.wait_for("host node3 is lost", 20s);
      cluster.act("heal", loss.host);
    }
    const HostJobEnd end = job.end({"node1", "node2", "node3"}, 60s);
    INFO(end.said);
    CHECK(end.exit_code == 0);
    CHECK(end.left.empty());
    const auto lost = end.said.find(" is lost (");
    const auto back = end.said.find(" is back");
    REQUIRE(lost != std::string::npos);
    REQUIRE(back != std::string::npos);
    CHECK(lost < back);
    CHECK(end.said.find("; its ranks are started again when it answers") != std::string::npos);
    CHECK(std::regex_search(end.said, std::regex("step 199 rank \\d of 4: 199")));
  }
}

}  // namespace hvdrun::test
