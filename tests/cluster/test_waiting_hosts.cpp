// Hosts that are not there yet when hvdrun starts: their sshd comes later, or their name does.
#include <fstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

bool is_said(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// node2 as "late", whose sshd is at a port where none listens yet, and as "newcomer", a name that
// nobody knows yet; either for libssh2 and, with a setting that it lacks, for the client.
class LateHosts {
 public:
  LateHosts() : place_(cluster.home("node2") + "/../") {
    ssh_ = cluster.home("node1") + "/.ssh/";
    run({.args = {"ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh_ + "stranger"}});
    std::ofstream(ssh_ + "config")
        << "Host late* stubborn\nHostName node2\nPort 2207\n"
        << "Host stubborn\nConnectionAttempts 30\n"
        << "Host *-client\nForwardAgent yes\n"
        << "Host *\nHostKeyAlias node2\n"
        << "Host stranger\nHostName node2\nIdentitiesOnly yes\nIdentityFile " << ssh_
        << "stranger\n";
    std::ofstream(place_ + "late_sshd")
        << "Port 2207\nListenAddress 0.0.0.0\nHostKey " << place_ << "key\nAuthorizedKeysFile "
        << place_ << "../id.pub\nStrictModes no\nPermitRootLogin yes\nUsePAM no\nPidFile " << place_
        << "late_pid\n"
        << (has_sshd_session() ? "PerSourcePenalties no\n" : "");
  }
  std::vector<std::string> hvdrun(std::vector<std::string> args) const {
    args.insert(args.begin(), {build_path("hvdrun"), "--env-compat", "torch"});
    return cluster.on("node1", std::move(args));
  }
  void start_sshd() const {
    REQUIRE(cluster.run_on("node2", {"/usr/sbin/sshd", "-f", place_ + "late_sshd"}).exit_code == 0);
  }
  void stop_sshd() const {
    REQUIRE(cluster.run_on("node2", {"sh", "-c", "kill $(cat " + place_ + "late_pid)"}).exit_code ==
            0);
  }
  void name_newcomers() const {
    REQUIRE(
        cluster
            .run_on("node1", {"sh", "-c", "echo '10.77.0.2 newcomer newcomer-client' >>/etc/hosts"})
            .exit_code == 0);
  }

  const Cluster cluster{2};

 private:
  std::string place_;
  std::string ssh_;
};

}  // namespace

TEST_CASE("with --start-timeout a host that is not there yet is waited for", "[cluster][waiting]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const LateHosts hosts;
  const std::string all = "late:1,newcomer:1,late-client:1,newcomer-client:1";
  const std::vector<std::string> names{"late", "newcomer", "late-client", "newcomer-client"};

  // ConnectionAttempts of the user's configuration, without the option.
  Background stubborn({.args = hosts.hvdrun({"--verbose", "--ssh", "libssh2", "-np", "1", "-H",
                                             "stubborn:1", "echo", "has started"})});
  static_cast<void>(stubborn.wait_for_output("stubborn: opened by libssh2", 20s));
  hosts.start_sshd();
  CHECK(stubborn.wait(40s) == 0);
  hosts.stop_sshd();

  // Without the option they are not waited for.
  const RunResult hasty = run({.args = hosts.hvdrun({"-np", "4", "-H", all, "true"})});
  CAPTURE(hasty.err);
  CHECK(hasty.exit_code == 69);
  CHECK(times_in(hasty.err, "port 2207: Connection refused\n") == 2);
  CHECK(times_in(hasty.err, "ould not resolve hostname newcomer") == 2);
  CHECK_FALSE(is_said(hasty.err, "tried"));
  CHECK_FALSE(is_said(hasty.err, "in time"));

  // An sshd that lets nobody in will not do so later.
  const RunResult refused = run({.args = hosts.hvdrun({"--start-timeout", "600", "-np", "3", "-H",
                                                       "late:1,late-client:1,stranger:1", "true"}),
                                 .limit = 50s});
  CAPTURE(refused.err);
  CHECK(refused.exit_code == 69);
  CHECK(is_said(refused.err, "host stranger ("));
  CHECK(is_said(refused.err, "Permission denied"));

  // The last reason is what is told when the time is over.
  const RunResult late =
      run({.args = hosts.hvdrun({"--start-timeout", "1", "-np", "4", "-H", all, "true"})});
  CAPTURE(late.err);
  CHECK(late.exit_code == 69);
  CHECK(is_said(late.err,
                "host late (connecting): connect to 10.77.0.2 port 2207: Connection refused "
                "(tried until the end)"));
  CHECK(is_said(late.err,
                "host newcomer (resolving its name): could not resolve hostname newcomer: "));
  CHECK(is_said(late.err, "host late-client (connecting): ssh: connect to host "));
  CHECK(is_said(late.err, "these hosts did not come up in time: late, newcomer, late-client"));

  Background job({.args = hosts.hvdrun(
                      {"--start-timeout", "60", "-np", "4", "-H", all, "echo", "has started"})});
  for (const std::string& name : names)
    static_cast<void>(job.wait_for_output("hvdrun: " + name + ": ", 20s));
  hosts.start_sshd();
  hosts.name_newcomers();
  const int code = job.wait(40s);
  const std::string& text = job.output();
  CAPTURE(text);
  CHECK(code == 0);
  CHECK(times_in(text, "has started") == 4);
  for (const std::string& name : names) CHECK(times_in(text, "hvdrun: " + name + ": ") == 1);
  CHECK(times_in(text,
                 "port 2207: Connection refused; tried again until it answers, for 60 s "
                 "(--start-timeout)") == 2);
  CHECK(times_in(text, "ould not resolve hostname newcomer") == 2);
}

}  // namespace hvdrun::test
