// Elastic jobs whose hosts come and go at random while ranks are lost and cables are cut, over ssh.
#include <algorithm>
#include <chrono>
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
#include "tests/integration/helpers/text.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// A job of three hosts meets it. The first host stays, as somebody has to have the state.
class Weather {
 public:
  Weather(const Cluster& cluster, std::uint64_t seed) : cluster_(cluster), random_(seed) {}

  std::filesystem::path list() const { return cluster_.folder() + "/hosts"; }
  void list_all() { write("node1:2\nnode2:2\nnode3:2\n"); }
  // One thing that costs no step; what it was.
  std::string change() {
    std::string hosts = "node1:2\n";
    for (const char* const host : {"node2", "node3"})
      if (below(3) > 0) hosts += host + (":" + std::to_string(1 + below(2))) + "\n";
    const std::string host = "node" + std::to_string(2 + below(2));
    switch (below(4)) {
      case 0:
        return send(host, "hvd-agent", SIGTERM) ? host + " leaves" : "";
      case 1:
        cluster_.act("cut", host);
        ::usleep(static_cast<useconds_t>(100'000 + below(500'000)));
        cluster_.act("heal", host);
        return "short cut of " + host;
      default:
        write(hosts);
        return "list " + std::regex_replace(hosts, std::regex("\n"), " ");
    }
  }
  std::string loss() {
    const std::string host = "node" + std::to_string(1 + below(3));
    const bool stops = below(3) == 0;
    if (!send(host, "elastic_samples", stops ? SIGSTOP : SIGKILL)) return "";
    return (stops ? "stop on " : "kill on ") + host;
  }
  // Ranks that there are, on all hosts.
  std::size_t ranks() const {
    std::size_t found = 0;
    for (const char* const host : {"node1", "node2", "node3"})
      found += named(host, "elastic_samples").size();
    return found;
  }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }

 private:
  std::vector<pid_t> named(const std::string& host, const std::string& name) const {
    std::vector<pid_t> found;
    for (const ProcessInfo& process : cluster_.processes(host))
      if (process.name == name) found.push_back(process.pid);
    return found;
  }
  bool send(const std::string& host, const std::string& name, int signal) {
    const std::vector<pid_t> there = named(host, name);
    return !there.empty() &&
           ::kill(there[below(static_cast<std::uint32_t>(there.size()))], signal) == 0;
  }
  void write(const std::string& text) const {
    const std::string next = list().string() + ".next";
    std::ofstream(next) << text;
    std::filesystem::rename(next, list());
  }

  const Cluster& cluster_;
  std::mt19937_64 random_;
};

// In the order of their ends.
std::vector<int> epochs_of_rank_0(const std::string& said) {
  const std::regex line("epoch (\\d+) rank 0 of ");
  std::vector<int> epochs;
  for (auto it = std::sregex_iterator(said.begin(), said.end(), line); it != std::sregex_iterator();
       ++it)
    epochs.push_back(std::stoi((*it)[1]));
  return epochs;
}

}  // namespace

TEST_CASE("hosts come and go over ssh, ranks are lost, and each sample counts once",
          "[cluster][elastic]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const std::uint64_t seed = soak_seed("hosts that move over ssh");
  // Half an hour in the soak.
  const int rounds = soak_count(100) >= 100 ? 100 : 2;
  const Cluster cluster(3);
  Weather weather(cluster, seed);
  const std::string stop = cluster.folder() + "/stop";
  std::size_t changes = 0;
  for (int round = 0; round < rounds; ++round) {
    weather.list_all();
    const std::string overlap = weather.below(2) == 0 ? "" : "export PROBE_OVERLAP=100000; ";
    HostJob job(
        cluster,
        {"-np", "6", "--min-np", "1", "--max-np", "6", "--host-discovery-script",
         "cat " + weather.list().string(), "--lease", "3", "--stall-check-warning-time-seconds",
         "1", "--stall-check-shutdown-time-seconds", "3", "--elastic-timeout", "30", "sh", "-c",
         overlap + "echo ready; exec " + build_path("tests/integration/programs/elastic_samples") +
             " 97 8 20 " + stop},
        6);
    job.wait_for("epoch 0 rank 0 of 6", 30s);
    std::string done = overlap;
    for (int change = 0; change < 4; ++change) {
      done += weather.change() + "; ";
      // Newcomers need a moment to take the state, and somebody has to have it.
      ::usleep(static_cast<useconds_t>(500'000 + weather.below(2'000'000)));
      if (weather.ranks() > 3) done += weather.loss() + "; ";
    }
    std::cout << "round " << round << ": " << done << "\n";
    std::ofstream(stop) << "now";
    job.begin();
    const HostJobEnd end = job.end({"node1", "node2", "node3"}, 90s);
    std::filesystem::remove(stop);
    INFO(done << "\n" << end.said);
    CHECK(end.exit_code == 0);
    CHECK(end.left.empty());
    CHECK(times_in(end.said, ": sample ") == 0);
    CHECK(times_in(end.said, ": each sample once") >= 6);
    CHECK(times_in(end.said, "done: rank 0 of ") == 1);
    const std::vector<int> epochs = epochs_of_rank_0(end.said);
    CHECK(std::is_sorted(epochs.begin(), epochs.end()));  // nobody began anew
    CHECK(epochs.back() > 0);
    changes += times_in(end.said, ": the job goes on with ");
    // A new connection is refused for a while after the cable is back.
    for (const char* host : {"node2", "node3"})
      cluster.run_on(
          "node1",
          {"bash", "-c", std::string("until : </dev/tcp/") + host + "/22; do sleep 0.1; done"});
  }
  CHECK(changes > 0);
}

}  // namespace hvdrun::test
