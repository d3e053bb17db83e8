// Hosts opened by libssh2, and what makes hvdrun take the ssh client for one.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"
#include "tests/soak.h"
#include "tests/turns.h"

using namespace hvdrun;
using namespace hvdrun::test;
using namespace std::chrono_literals;

namespace {

#define NEEDS_HOSTS()                                                   \
  if (const std::string reason = Cluster::missing(); !reason.empty()) { \
    WARN("left out: " << reason);                                       \
    return;                                                             \
  }

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& text) {
  std::filesystem::remove(path);  // which may be a link to what all hosts share
  std::ofstream(path) << text;
}

// The home of the user on node1.
struct Home {
  explicit Home(const Cluster& cluster)
      : ssh(cluster.home("node1") + "/.ssh/"), known(content_of(ssh + "known_hosts")) {}

  std::string ssh;
  std::string known;  // all hosts

  std::string known_line(const std::string& host) const {
    const auto begin = known.find(host + ",");
    return known.substr(begin, known.find('\n', begin) + 1 - begin);
  }
};

RunResult launch(const Cluster& cluster, std::vector<std::string> args) {
  args.insert(args.begin(), {"--verbose", "--env-compat", "torch"});
  return cluster.hvdrun_on("node1", std::move(args));
}

// An sshd of its own on a host, which goes with it.
void start_sshd(const Cluster& cluster, const std::string& host, int port,
                const std::string& settings) {
  const std::string place = cluster.home(host) + "/../";
  write_file(place + "sshd_" + std::to_string(port),
             "Port " + std::to_string(port) + "\nListenAddress 0.0.0.0\nAuthorizedKeysFile " +
                 place + "../id.pub\nStrictModes no\nPermitRootLogin yes\nPidFile none\n" +
                 (has_sshd_session() ? "PerSourcePenalties no\n" : "") + settings);
  REQUIRE(cluster.run_on(host, {"/usr/sbin/sshd", "-f", place + "sshd_" + std::to_string(port)})
              .exit_code == 0);
}

bool ends_there(const Cluster& cluster, const std::string& host, const std::string& pattern) {
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (std::chrono::steady_clock::now() < deadline)
    if (cluster.run_on(host, {"pgrep", "-f", pattern}).exit_code == 1) return true;
  return false;
}

}  // namespace

TEST_CASE("libssh2 opens hosts that are known, and no others", "[cluster][libssh2]") {
  NEEDS_HOSTS();
  const Cluster cluster(3);
  const Home home(cluster);
  const std::vector<std::string> job{"-np", "1", "-H", "node2:1", "/bin/true"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), job.begin(), job.end());
    return launch(cluster, options);
  };

  const RunResult three =
      launch(cluster, {"-np", "3", "-H", "node1:1,node2:1,node3:1", "/bin/true"});
  CAPTURE(three.err);
  CHECK(three.exit_code == 0);
  CHECK(mentions(three.err, "node2: opened by libssh2, as root@node2 port 22"));
  CHECK(mentions(three.err, "node3: opened by libssh2"));
  // Where there is no ssh program at all.
  const RunResult alone =
      cluster.run_on("node1", {"env", "PATH=/nowhere", build_path("hvdrun"), "--env-compat",
                               "torch", "-np", "1", "-H", "node2:1", "/bin/true"});
  CHECK(alone.exit_code == 0);

  const std::string file = home.ssh + "known_hosts";
  write_file(file, home.known_line("node3"));
  const RunResult unknown = with({});
  CAPTURE(unknown.err);
  CHECK(unknown.exit_code == 69);
  CHECK(mentions(unknown.err,
                 "host node2 (agreeing on keys): Host key verification failed: nothing "
                 "is known of its key (ssh-ed25519 SHA256:"));
  CHECK(mentions(unknown.err, "--accept-new-host-keys"));
  // The line that it says is the one to run.
  const auto begin = unknown.err.find("echo 'node2 ssh-ed25519 ");
  REQUIRE(begin != std::string::npos);
  const std::string line = unknown.err.substr(begin, unknown.err.find(';', begin) - begin);
  CHECK(run({.args = {"sh", "-c", line}}).exit_code == 0);
  CHECK(with({}).exit_code == 0);

  write_file(file, "");
  write_file(home.ssh + "config", "HashKnownHosts yes\n");
  CHECK(with({"--accept-new-host-keys"}).exit_code == 0);
  CHECK(content_of(file).starts_with("|1|"));
  CHECK(with({}).exit_code == 0);
  std::filesystem::remove(home.ssh + "config");

  write_file(file, home.known);
  REQUIRE(run({.args = {"ssh-keygen", "-H", "-f", file}}).exit_code == 0);
  CHECK(mentions(with({}).err, "opened by libssh2"));
  CHECK(with({}).exit_code == 0);

  write_file(file, home.known + "@revoked * " +
                       home.known_line("node2").substr(home.known_line("node2").find(' ') + 1));
  const RunResult revoked = with({});
  CHECK(revoked.exit_code == 69);
  CHECK(mentions(revoked.err, "has revoked its key"));
  const std::string foreign = home.known_line("node3");
  write_file(file, "node2" + foreign.substr(foreign.find(' ')));
  for (const char* const option : {"--accept-new-host-keys", "--stdin=none"}) {
    const RunResult changed = with({option});
    CHECK(changed.exit_code == 69);
    CHECK(mentions(changed.err, "Host key for node2 has changed"));
  }

  write_file(file, home.known);
  const RunResult others =
      launch(cluster, {"--ssh", "libssh2", "-np", "2", "-H", "nowhere:1,node2:1", "/bin/true"});
  CHECK(others.exit_code == 69);
  CHECK(mentions(others.err,
                 "host nowhere (resolving its name): could not resolve hostname nowhere"));
  const RunResult refused = with({"-p", "1"});
  CHECK(mentions(refused.err,
                 "host node2 (connecting): connect to 10.77.0.2 port 1: Connection refused"));
  CHECK(mentions(refused.err, "to see it by hand: ssh -p 1 node2 true"));
}

TEST_CASE("keys come from files and from the agent, and what libssh2 lacks from the client",
          "[cluster][libssh2]") {
  NEEDS_HOSTS();
  const Cluster cluster(3);
  const Home home(cluster);
  const std::vector<std::string> job{"-np", "1", "-H", "node2:1", "/bin/true"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), job.begin(), job.end());
    return launch(cluster, options);
  };
  write_file(home.ssh + "config", "Host node2\n  ProxyJump node3\n");
  const RunResult jump = with({});
  CAPTURE(jump.err);
  CHECK(jump.exit_code == 0);
  CHECK(mentions(jump.err, "node2: opened by ssh, because its ssh configuration has ProxyJump"));
  const RunResult forced = with({"--ssh", "libssh2"});
  CHECK(forced.exit_code == 69);
  CHECK(mentions(forced.err, "libssh2 cannot open it: its ssh configuration has ProxyJump"));
  std::filesystem::remove(home.ssh + "config");
  CHECK(mentions(with({"--ssh-args", "-4"}).err, "node2: opened by ssh, because --ssh-args"));

  // A server that has another type of key first, and one that agrees with libssh2 on nothing.
  const std::string place = cluster.home("node2") + "/../";
  run({.args = {"ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", place + "ecdsa"}});
  start_sshd(cluster, "node2", 2222, "HostKey " + place + "ecdsa\nHostKey " + place + "key\n");
  start_sshd(cluster, "node2", 2223, "HostKey " + place + "key\nCiphers aes256-gcm@openssh.com\n");
  const RunResult both = with({"--ssh", "libssh2", "-p", "2222"});
  CAPTURE(both.err);
  CHECK(both.exit_code == 0);
  const RunResult hardened = with({"-p", "2223"});
  CAPTURE(hardened.err);
  CHECK(hardened.exit_code == 0);
  CHECK(mentions(hardened.err, "opened by ssh, because libssh2 failed while agreeing on keys"));

  // The key in the agent alone.
  const std::string socket = home.ssh + "agent";
  const std::string key = home.ssh + "id_ed25519";
  const auto with_agent = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {"env", "SSH_AUTH_SOCK=" + socket});
    return cluster.run_on("node1", args);
  };
  REQUIRE(cluster.run_on("node1", {"ssh-agent", "-a", socket}).exit_code == 0);
  const std::vector<std::string> by_agent{build_path("hvdrun"),
                                          "--env-compat",
                                          "torch",
                                          "--ssh",
                                          "libssh2",
                                          "-np",
                                          "1",
                                          "-H",
                                          "node2:1",
                                          "/bin/true"};
  std::filesystem::rename(key, home.ssh + "aside");
  const RunResult empty = with_agent(by_agent);
  CHECK(empty.exit_code == 69);
  CHECK(mentions(empty.err, "the ssh agent has no ed25519 or ecdsa key"));
  REQUIRE(with_agent({"ssh-add", "-q", home.ssh + "aside"}).exit_code == 0);
  const RunResult agent = with_agent(by_agent);
  CAPTURE(agent.err);
  CHECK(agent.exit_code == 0);

  // RSA, which libssh2 can only sign with SHA-1, and a stranger's key.
  run({.args = {"ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f",
                home.ssh + "id_rsa"}});
  std::ofstream(cluster.home("node1") + "/../../id.pub", std::ios::app)
      << content_of(home.ssh + "id_rsa.pub");
  const RunResult rsa = with({});
  CAPTURE(rsa.err);
  CHECK(rsa.exit_code == 0);
  CHECK(mentions(rsa.err, "opened by ssh, because "));
  CHECK(mentions(rsa.err, "id_rsa is no key that libssh2 can use"));
  std::filesystem::remove(home.ssh + "id_rsa");
  run({.args = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key}});
  const RunResult stranger = with({});
  CHECK(stranger.exit_code == 69);
  CHECK(mentions(stranger.err, "opened by ssh, because libssh2 failed while logging in"));
  CHECK(mentions(stranger.err, "Permission denied (publickey)"));
}

TEST_CASE("a host of libssh2 or of a template ends with its connection", "[cluster][libssh2]") {
  NEEDS_HOSTS();
  const Cluster cluster(2);
  const Home home(cluster);
  const std::string word = "sleep 1000.25";
  const std::string script = home.ssh + "reach";
  write_file(script, "#!/bin/sh\nexec ssh -o BatchMode=yes \"$@\"\n");
  ::chmod(script.c_str(), 0755);
  const std::string direct = home.ssh + "direct";
  write_file(direct,
             "#!/bin/sh\n[ $# = 4 ] && [ \"$2 $3\" = 'sh -c' ] || exit 9\n"
             "exec ssh -o BatchMode=yes \"$1\" \"$4\"\n");
  ::chmod(direct.c_str(), 0755);
  CHECK(launch(cluster, {"--ssh", direct + " {host}", "-np", "1", "-H", "node2:1", "/bin/true"})
            .exit_code == 0);
  struct Kill {
    std::string ssh;
    const char* host;
    const char* by;
    const char* pattern;
  };
  for (const Kill& kill :
       {Kill{"libssh2", "node2", "-f", "^sshd(-session)?: root@notty"},
        Kill{"libssh2", "node2", "-x", "hvd-guard"}, Kill{"libssh2", "node1", "-x", "hvdrun"},
        Kill{script + " {host} {command}", "node1", "-f", "^ssh -o BatchMode=yes node2"}}) {
    CAPTURE(kill.ssh, kill.pattern);
    Background job(
        {.args = cluster.on("node1", {build_path("hvdrun"), "--env-compat", "torch", "--ssh",
                                      kill.ssh, "-np", "2", "-H", "node1:1,node2:1", "sh", "-c",
                                      "echo ready; setsid " + word + " & " + word})});
    for (int rank = 0; rank < 2; ++rank)
      job.wait_for_output("[" + std::to_string(rank) + "]<stdout>:ready", 10s);
    CHECK(cluster.run_on(kill.host, {"pkill", "-KILL", kill.by, kill.pattern}).exit_code == 0);
    CHECK(job.wait(10s) > 0);
    for (const char* const host : {"node1", "node2"}) CHECK(ends_there(cluster, host, "^" + word));
  }
}

TEST_CASE("an sshd that turns some of many away is tried again", "[cluster][libssh2]") {
  if (!takes_turn(3)) return;
  NEEDS_HOSTS();
  const Cluster cluster(2);
  // It turns away some of more than a few at once that have not logged in; whole, as Debian's does.
  const bool whole = soak_count(100) >= 100;
  const std::size_t names = whole ? 64 : 24;
  start_sshd(cluster, "node2", 2022,
             "HostKey " + cluster.home("node2") + "/../key\nMaxStartups " +
                 (whole ? "10:30:100" : "3:50:30") + "\n");
  const Home home(cluster);
  std::string config;
  std::string hosts;
  for (std::size_t i = 0; i < names; ++i) {
    const std::string name = "name" + std::to_string(i);
    config += "Host " + name + "\n  HostName 10.77.0.2\n  Port 2022\n  HostKeyAlias node2\n";
    hosts += (i == 0 ? "" : ",") + name + ":1";
  }
  write_file(home.ssh + "config", config);
  for (const char* const transport : {"libssh2", "openssh"}) {
    const RunResult result =
        cluster.hvdrun_on("node1", {"--env-compat", "torch", "--ssh", transport, "--start-timeout",
                                    "120", "-H", hosts, "echo", "here"});
    CAPTURE(transport, result.err);
    CHECK(result.exit_code == 0);
    std::size_t count = 0;
    for (auto at = result.out.find("here"); at != std::string::npos;
         at = result.out.find("here", at + 1))
      ++count;
    CHECK(count == names);
  }
}
