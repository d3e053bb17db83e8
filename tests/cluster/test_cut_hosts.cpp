// Hosts whose network goes away, for a while or for good, with and without their power.
#include <fstream>
#include <iostream>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

// Ranks that say "healed" and end well once the file is there.
std::vector<std::string> waiting_for(const std::string& file) {
  return {"sh", "-c", "echo ready; until [ -e " + file + " ]; do sleep 0.05; done; echo healed"};
}

std::vector<std::string> words(std::vector<std::string> options,
                               const std::vector<std::string>& program) {
  options.insert(options.end(), program.begin(), program.end());
  return options;
}

const std::vector<std::string> kSleeper{"sh", "-c",
                                        "echo ready; setsid sleep 1000.75 & exec sleep 1000.75"};

bool left_out(bool only_in_soak) {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return true;
  }
  return only_in_soak && soak_count(1) == 0;
}

void sleep_for(milliseconds time) { ::usleep(static_cast<useconds_t>(time.count() * 1000)); }

// A new connection is refused for a while after the cable is back.
void heal(const Cluster& cluster, const std::string& host) {
  cluster.act("heal", host);
  const std::string other = host == "node1" ? "node2" : "node1";
  cluster.run_on(other, {"bash", "-c", "until : </dev/tcp/" + host + "/22; do sleep 0.1; done"});
}

// Takes the cable of a host away for so long: the job ends well, with all output.
void check_healed(const Cluster& cluster, const std::string& host, const std::string& lease,
                  milliseconds cut) {
  const std::string file = cluster.folder() + "/heal-" + host + std::to_string(cut.count());
  HostJob job(cluster,
              words({"-np", "2", "-H", "node1:1,node2:1", "--lease", lease}, waiting_for(file)), 2);
  cluster.act("cut", host);
  sleep_for(cut);
  cluster.act("heal", host);
  std::ofstream(file) << "go";
  job.begin();
  const HostJobEnd end = job.end({"node1", "node2"}, 40s);
  print_row(
      "cable of " + host + " cut for " + std::to_string(cut.count()) + " ms, lease " + lease + " s",
      end);
  INFO(end.said);
  CHECK(end.exit_code == 0);
  CHECK(end.left.empty());
  CHECK(contains(end.said, "[0]<stdout>:healed"));
  CHECK(contains(end.said, "[1]<stdout>:healed"));
}

TEST_CASE("a cut for less than the lease costs time only, a longer one or no power the host",
          "[cluster][failure]") {
  if (left_out(false)) return;
  const Cluster cluster(3);
  check_healed(cluster, "node2", "5", 1000ms);
  HostJob job(cluster,
              words({"-np", "3", "-H", "node1:1,node2:1,node3:1", "--lease", "2"}, kSleeper), 3);
  cluster.act("cut", "node2");
  cluster.act("cut", "node3");
  cluster.act("poweroff", "node3");
  job.begin();
  const HostJobEnd end = job.end({"node1", "node2"}, 20s);
  print_row("one host cut off, one without power, lease 2 s", end);
  INFO(end.said);
  CHECK(end.exit_code == 69);
  CHECK(end.left.empty());
  CHECK((contains(end.said, "host node2 was lost") || contains(end.said, "host node3 was lost")));
  CHECK(contains(end.said, "it has said nothing for 2."));
  CHECK(end.back > 1500ms);
  CHECK(end.back < 8s);
  CHECK(end.gone < 8s);
}

TEST_CASE("long cuts", "[cluster][failure][long]") {
  if (left_out(true)) return;
  const Cluster cluster(3);
  for (const auto cut : {4000ms, 9000ms, 13500ms}) {
    check_healed(cluster, "node2", "15", cut);
    check_healed(cluster, "node1", "15", cut);
  }
  check_healed(cluster, "node2", "30", 22000ms);

  HostJob job(cluster,
              words({"-np", "3", "-H", "node1:1,node2:1,node3:1", "--lease", "6"}, kSleeper), 3);
  cluster.act("cut", "node2");
  job.begin();
  job.wait_for("host node2 has said nothing for 3 s", 10s);
  std::cout << "silence named after " << job.passed().count() << " ms\n";
  CHECK(job.passed() > 2s);
  CHECK(job.passed() < 6s);
  const HostJobEnd end = job.end({"node1", "node2", "node3"}, 20s);
  print_row("a host cut off, lease 6 s", end);
  CHECK(end.exit_code == 69);
  CHECK(end.left.empty());
  CHECK(end.back > 5s);
  CHECK(end.back < 14s);
  heal(cluster, "node2");

  // hvdrun's own host is the one that is cut off: the others end their ranks themselves.
  HostJob alone(cluster,
                words({"-np", "3", "-H", "node1:1,node2:1,node3:1", "--lease", "4"}, kSleeper), 3);
  cluster.act("cut", "node1");
  alone.begin();
  const HostJobEnd alone_end = alone.end({"node1", "node2", "node3"}, 20s);
  print_row("hvdrun's own host cut off, lease 4 s", alone_end);
  CHECK(alone_end.exit_code == 69);
  CHECK(alone_end.left.empty());
  heal(cluster, "node1");

  // Nobody is left who could wait for the lease of the host that is cut off.
  HostJob headless(cluster, words({"-np", "2", "-H", "node1:1,node2:1", "--lease", "4"}, kSleeper),
                   2);
  cluster.act("cut", "node2");
  headless.begin();
  CHECK(headless.kill("node1", "hvd-coordinator"));
  const HostJobEnd headless_end = headless.end({"node1", "node2"}, 20s);
  print_row("coordinator killed while a host is cut off", headless_end);
  CHECK(headless_end.exit_code == 70);
  CHECK(headless_end.left.empty());
  heal(cluster, "node2");
}

TEST_CASE("a host that is cut off with output of ranks that have ended",
          "[cluster][failure][long]") {
  if (left_out(true)) return;
  const Cluster cluster(2);
  // The rank waits for the console, which nobody reads. Its lines have ended, since of others
  // hvdrun holds a MiB. They are more than hvdrun and its stdout take (up to 390,000 bytes). They
  // are less than with the 64 KiB of the rank's own pipe, so that the rank ends.
  HostJob ending(
      cluster,
      {"-np", "2", "-H", "node1:1,node2:1", "--lease", "4", "sh", "-c",
       "echo ready; sleep 2; [ $HVD_RANK = 0 ] || head -c 420000 /dev/zero | tr '\\0' x | "
       "fold -w 1000"},
      2);
  sleep_for(4000ms);
  cluster.act("cut", "node2");
  ending.begin();
  const HostJobEnd ended = ending.end({"node1", "node2"}, 30s);
  print_row("a host cut off before all its output is read", ended);
  CHECK(ended.exit_code == 74);
  CHECK(ended.left.empty());
  CHECK(contains(ended.said, "host node2 does not answer; the end of its output may be missing"));
}

TEST_CASE("hosts with a bad network run jobs all the same", "[cluster][failure][long]") {
  if (left_out(true)) return;
  if (::access("/dev/net/tun", W_OK) != 0) {
    WARN("left out: there is no /dev/net/tun");
    return;
  }
  struct Link {
    const char* what;
    const char* delay_ms;
    const char* loss_percent;
    const char* mbit;
  };
  for (const Link& link :
       {Link{"5 % of the packets lost", "1", "5", "0"},
        Link{"20 % of the packets lost", "1", "20", "0"},
        Link{"a quarter of a second each way", "250", "0", "0"}, Link{"8 Mbit/s", "1", "0", "8"},
        Link{"slow, far and lossy", "50", "2", "20"}}) {
    const Cluster cluster(2);
    Background shaper(
        {.args = {"env", "HVD_CLUSTER=" + cluster.folder(), source_path("scripts/cluster"), "shape",
                  "node2", build_path("tests/cluster/link_shaper"), link.delay_ms,
                  link.loss_percent, link.mbit}});
    shaper.wait_for_output("ready", 10s);
    const auto begin = HostJob::Clock::now();
    HostJob job(cluster,
                {"-np", "2", "-H", "node1:1,node2:1", "--start-timeout", "120", "sh", "-c",
                 "echo ready; sleep 5; echo done"},
                // An agent with sanitizers in it has 40 MB.
                2, {}, 100s);
    const auto started = HostJob::Clock::now() - begin;
    const HostJobEnd end = job.end({"node1", "node2"}, 60s);
    print_row(std::string(link.what) + ", up after " +
                  std::to_string(std::chrono::duration_cast<milliseconds>(started).count()) + " ms",
              end);
    INFO(end.said);
    CHECK(end.exit_code == 0);
    CHECK(end.left.empty());
    CHECK(contains(end.said, "[1]<stdout>:done"));
  }
}

}  // namespace
}  // namespace hvdrun::test
