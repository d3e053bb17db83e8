// The ways by which the agents of other hosts find the driver: addresses, interfaces, ports, and no
// way at all.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool no_cluster() {
  const std::string reason = Cluster::missing();
  if (!reason.empty()) WARN("left out: " << reason);
  return !reason.empty();
}

// Everything that node2 begins towards node1 is dropped without a word, or refused.
void block_way_back(const Cluster& cluster, bool silently) {
  REQUIRE(cluster
              .run_on("node1", {"sh", "-c",
                                std::string("iptables -A INPUT -i eth0 -p tcp --syn -j ") +
                                    (silently ? "DROP" : "REJECT --reject-with tcp-reset")})
              .exit_code == 0);
}

constexpr const char* kShowAddresses =
    "echo $HVD_RANK $HVD_HOST_ADDRESS $GLOO_SOCKET_IFNAME $NCCL_SOCKET_IFNAME $MASTER_ADDR";

}  // namespace

TEST_CASE("interfaces may be named differently on each host", "[cluster][addresses]") {
  if (no_cluster()) return;
  const Cluster cluster(2);
  REQUIRE(cluster
              .run_on("node2", {"sh", "-c",
                                "ip link set eth0 down && ip link set eth0 name ib7 && "
                                "ip link set ib7 up"})
              .exit_code == 0);
  // Another network of node1, which node2 does not have.
  cluster.run_on(
      "node1",
      {"sh", "-c",
       "ip link add net9 type veth peer name net10 && ip addr add 192.0.2.1/24 dev net9 && "
       "ip link set net9 up"});
  const std::vector<std::string> job{"-np", "2",  "-H",          "node1:1,node2:1",
                                     "sh",  "-c", kShowAddresses};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), job.begin(), job.end());
    return cluster.hvdrun_on("node1", options);
  };
  const RunResult plain = with({"--env-compat", "torch", "--verbose"});
  CAPTURE(plain.err);
  CHECK(has(plain.out, "[0]<stdout>:0 10.77.0.1 eth0 =eth0 10.77.0.1\n"));
  CHECK(has(plain.out, "[1]<stdout>:1 10.77.0.2 ib7 =ib7 10.77.0.1\n"));
  CHECK(has(plain.err, "node2: its address is 10.77.0.2, on interface ib7\n"));
  // A variable that the user has set stays.
  CHECK(has(with({"-x", "GLOO_SOCKET_IFNAME=x,y", "-x", "NCCL_SOCKET_IFNAME=z"}).out,
            "[1]<stdout>:1 10.77.0.2 x,y z 10.77.0.1\n"));
  CHECK(with({"--network-interfaces", "eth0,net9"}).exit_code == 0);
  CHECK(with({"--advertise", "192.0.2.9,10.77.0.1"}).exit_code == 0);
  const RunResult wrong = with({"--env-compat", "torch", "--network-interfaces", "eth0,eth5"});
  CHECK(wrong.exit_code == 64);
  CHECK(wrong.err ==
        "hvdrun: --network-interfaces 'eth5': no interface of this machine with an address that "
        "other "
        "hosts reach has that name; there are eth0, net9\n");
}

TEST_CASE("another machine at one of the addresses gets no word of a job", "[cluster][addresses]") {
  if (no_cluster()) return;
  const Cluster cluster(2);
  // node2 has a network with the address that node1 has in one of its own. Who answers there is
  // nearer, and has a certificate.
  const TempFolder folder;
  const std::string key = folder.path() + "/key";
  const std::string certificate = folder.path() + "/certificate";
  REQUIRE(run({.args = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=stranger", "-keyout",
                        key, "-out", certificate}})
              .exit_code == 0);
  REQUIRE(cluster
              .run_on("node2", {"sh", "-c",
                                "ip link add net9 type veth peer name net10 && "
                                "ip addr add 192.0.2.1/24 dev net9 && ip link set net9 up && "
                                "ip link set net10 up"})
              .exit_code == 0);
  std::vector<std::unique_ptr<Background>> strangers;
  for (const char* const port : {"6000", "6001"}) {  // control and output
    strangers.push_back(std::make_unique<Background>(
        RunOptions{.args = cluster.on("node2", {"sh", "-c",
                                                "sleep 60 | openssl s_server -tls1_3 -msg -accept "
                                                "192.0.2.1:" +
                                                    std::string(port) + " -cert " + certificate +
                                                    " -key " + key})}));
    strangers.back()->wait_for_output("ACCEPT", 10s);
  }
  const RunResult result = cluster.hvdrun_on(
      "node1", {"--env-compat", "torch", "--advertise", "192.0.2.1,10.77.0.1", "--port-range",
                "6000-6003", "-np", "2", "-H", "node1:1,node2:1", "true"});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK_FALSE(has(result.err, "cannot reach"));
  for (const auto& stranger : strangers) {
    stranger->wait_for_output("ERROR", 10s);  // the agent has left
    CHECK(has(stranger->output(), "ClientHello"));
    CHECK_FALSE(has(stranger->output(), "<<< TLS 1.3, Handshake [length 0024], Finished"));
  }
}

TEST_CASE("ports come from the range that is given", "[cluster][addresses]") {
  if (no_cluster()) return;
  const Cluster cluster(2);
  const auto with = [&](const std::string& range, const std::string& word) {
    return cluster.hvdrun_on(
        "node1", {"--env-compat", "torch,horovod", "--port-range", range, "--tag-output", "off",
                  "-np", "2", "-H", "node1:1,node2:1", "sh", "-c", word});
  };
  // Nothing else is let in.
  REQUIRE(
      cluster
          .run_on("node1", {"sh", "-c",
                            "iptables -A INPUT -i eth0 -p tcp --syn --dport 6000:6002 -j ACCEPT "
                            "&& iptables -A INPUT -i eth0 -p tcp --syn -j DROP"})
          .exit_code == 0);
  // A job that no other host connects to needs none of it.
  const RunResult result =
      with("6000-6002",
           "[ $HVD_RANK = 1 ] || echo $MASTER_PORT $((HOROVOD_GLOO_RENDEZVOUS_PORT > 6003))");
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK_FALSE(has(result.err, "cannot reach"));
  // Control and output were first.
  CHECK(result.out == "6002 1\n");
  // Ranks meet there too: libhvd of rank 1 connects to none but those of the range.
  REQUIRE(
      cluster
          .run_on("node2", {"sh", "-c",
                            "iptables -A INPUT -i eth0 -p tcp --syn --dport 6000:6005 -j ACCEPT "
                            "&& iptables -A INPUT -i eth0 -p tcp --syn --dport 22 -j ACCEPT "
                            "&& iptables -A INPUT -i eth0 -p tcp --syn -j DROP"})
          .exit_code == 0);
  const RunResult ranks = cluster.hvdrun_on(
      "node1", {"--port-range", "6000-6005", "-H", "node1:2,node2:2", worker_probe(), "again"});
  CAPTURE(ranks.out, ranks.err);
  CHECK(ranks.exit_code == 0);
  // Another one at once, though old connections still stand on those ports.
  CHECK(with("6000-6002", "true").exit_code == 0);
  const RunResult full = with("6000-6000", "true");
  CHECK(full.exit_code == 69);
  CHECK(full.err == "hvdrun: --port-range 6000-6000: no port of it is free any more\n");
}

TEST_CASE("a host that cannot call back is served through ssh", "[cluster][addresses]") {
  if (!takes_turn(2)) return;
  if (no_cluster()) return;
  const bool silently = GENERATE(true, false);
  CAPTURE(silently);
  const Cluster cluster(2);
  block_way_back(cluster, silently);
  // The addresses are tried for a tenth of it.
  const std::vector<std::string> hosts{"--start-timeout", "15", "--env-compat",
                                       "torch",           "-H", "node1:1,node2:1"};
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(), hosts.begin(), hosts.end());
    return cluster.on("node1", [&] {
      words.insert(words.begin(), build_path("hvdrun"));
      return words;
    }());
  };
  const RunResult result = run({.args = with({"-np", "2", "sh", "-c", kShowAddresses})});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(has(result.err,
            "hvdrun: node2 cannot reach this machine (tried 10.77.0.1): its control and output go "
            "through ssh\n"));
  CHECK(has(result.out, "[0]<stdout>:0 10.77.0.1 eth0 =eth0 10.77.0.1\n"));
  CHECK(has(result.out, "[1]<stdout>:1 10.77.0.2 eth0 =eth0 10.77.0.1\n"));
  if (!silently) {
    // A rank that floods: all of it comes, and control is not starved meanwhile.
    const RunResult flood =
        run({.args = with({"--lease", "5", "--tag-output", "off", "-np", "2", "sh", "-c",
                           "[ $HVD_RANK = 0 ] || "
                           "head -c 5000000 /dev/zero | tr '\\0' x"})});
    CHECK(flood.exit_code == 0);
    CHECK(std::count(flood.out.begin(), flood.out.end(), 'x') == 5'000'000);
    // A connection that reached its sshd through a tunnel has a loopback address there, which
    // nobody else reaches.
    const TempFolder folder;
    const std::string tunnel = folder.path() + "/tunnel";
    std::ofstream(tunnel) << "#!/bin/sh\nexec ssh -o BatchMode=yes \"$1\" "
                             "\"export SSH_CONNECTION='127.0.0.1 1 127.0.0.1 22'; $4\"\n";
    std::filesystem::permissions(tunnel, std::filesystem::perms::owner_all);
    CHECK(has(
        run({.args = with({"--ssh", tunnel + " {host}", "-np", "2", "sh", "-c", kShowAddresses})})
            .out,
        "[1]<stdout>:1 10.77.0.2 eth0 =eth0 10.77.0.1\n"));
    // Input goes the other way.
    RunOptions input;
    input.args = with({"--stdin", "1", "--tag-output", "off", "-np", "2", "wc", "-c"});
    input.input = std::string(3'000'000, 'i');
    CHECK(has(run(input).out, "3000000\n"));
    CHECK(run({.args = with({"-np", "2", "sh", "-c", "[ $HVD_RANK = 0 ] || exit 5; sleep 1000.6"})})
              .exit_code == 5);
  }
  if (silently) return;
  // The end of the channel is the end of the host.
  for (const auto& [host, name] : {std::pair("node1", "hvdrun"), std::pair("node2", "hvd-agent"),
                                   std::pair("node1", "hvd-coordinator")}) {
    CAPTURE(name);
    Background job({.args = with({"-np", "2", "sh", "-c", "echo ready; exec sleep 1000.7"})});
    for (const char* line : {"[0]<stdout>:ready", "[1]<stdout>:ready"})
      job.wait_for_output(line, 20s);
    CHECK(cluster.run_on(host, {"pkill", "-KILL", "-x", name}).exit_code == 0);
    CHECK(job.wait(10s) > 0);
    for (int i = 0; cluster.run_on("node2", {"pgrep", "-f", "^sleep 1000"}).exit_code == 0; ++i)
      REQUIRE(i < 100);
  }
}

TEST_CASE("hosts that have IPv6 only", "[cluster][addresses]") {
  if (no_cluster()) return;
  const Cluster cluster(2, true);
  const RunResult result = cluster.hvdrun_on(
      "node1",
      {"--env-compat", "torch", "-np", "2", "-H", "node1:1,node2:1", "sh", "-c", kShowAddresses});
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  CHECK(without_waiting(result.err).empty());
  CHECK(has(result.out, "[0]<stdout>:0 fd77::1 eth0 =eth0 fd77::1\n"));
  CHECK(has(result.out, "[1]<stdout>:1 fd77::2 eth0 =eth0 fd77::1\n"));
}

TEST_CASE("programs of Horovod meet across hosts, and nobody else at their store",
          "[cluster][addresses]") {
  if (no_cluster()) return;
  const Cluster cluster(3);
  const auto with = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"--tag-output", "off", "-np", "4", "-H", "node1:1,node2:2,node3:1"});
    return cluster.hvdrun_on("node1", words);
  };
  const RunResult result =
      with({build_path("tests/integration/programs/horovod_client"), "member", "3"});
  CAPTURE(result.err, result.out);
  CHECK(result.exit_code == 0);
  for (int rank = 0; rank < 4; ++rank)
    CHECK(has(result.out, "member " + std::to_string(rank) + " of 4: 3 rounds, 0 retries\n"));
  CHECK_FALSE(has(result.err, "env-compat"));
  CHECK(with({"sh", "-c", "echo $HOROVOD_GLOO_RENDEZVOUS_ADDR $HOROVOD_GLOO_IFACE"}).out ==
        "127.0.0.1 eth0\n127.0.0.1 eth0\n127.0.0.1 eth0\n127.0.0.1 eth0\n");
  // Each rank shows where its store's port is listened at on its host: on loopback alone.
  const RunResult where =
      with({"sh", "-c",
            "port=$(printf %04X $HOROVOD_GLOO_RENDEZVOUS_PORT); cat /proc/net/tcp /proc/net/tcp6 | "
            "awk -v port=$port '$4 == \"0A\" && $2 ~ port \"$\" {print $2 == \"0100007F:\" "
            "port}'"});
  CHECK(where.out == "1\n1\n1\n1\n");
  // A single host that is another one.
  const RunResult one = cluster.hvdrun_on(
      "node1", {"--tag-output", "off", "-H", "node2:2",
                build_path("tests/integration/programs/horovod_client"), "member", "2"});
  CHECK(one.exit_code == 0);
  CHECK(has(one.out, "member 1 of 2: 2 rounds, 0 retries\n"));
  // Hosts whose agents reach nobody but through ssh; the members themselves reach each other.
  REQUIRE(cluster
              .run_on("node1", {"sh", "-c",
                                "iptables -A INPUT -i eth0 -p tcp --syn --dport 6000:6009 -j "
                                "REJECT --reject-with tcp-reset"})
              .exit_code == 0);
  const RunResult relayed =
      with({"--port-range", "6000-6009", build_path("tests/integration/programs/horovod_client"),
            "member", "3"});
  CHECK(relayed.exit_code == 0);
  CHECK(has(relayed.err, "node2 cannot reach this machine"));
  CHECK(has(relayed.err, "node3 cannot reach this machine"));
  for (int rank = 0; rank < 4; ++rank)
    CHECK(has(relayed.out, "member " + std::to_string(rank) + " of 4: 3 rounds, 0 retries\n"));
  // Where a host has no place for the store its ranks do not start: each would train alone.
  REQUIRE(cluster.run_on("node3", {"ip", "addr", "del", "127.0.0.1/8", "dev", "lo"}).exit_code ==
          0);
  const RunResult none = with({"true"});
  CHECK(none.exit_code == 126);
  CHECK(has(none.err,
            "could not start: cannot open a port for Horovod's rendezvous (--env-compat "
            "torch,mpi-ids goes without it): Cannot assign requested address\n"));
  CHECK(with({"--env-compat", "torch,mpi-ids", "true"}).exit_code == 0);
}

}  // namespace hvdrun::test
