#include "tests/cluster/cluster.h"

#include <stdexcept>
#include <unistd.h>

namespace hvdrun::test {
namespace {

std::string script() { return source_path("scripts/cluster"); }

}  // namespace

std::string Cluster::missing() {
  if (::geteuid() != 0) return "hosts in network namespaces need root";
  if (::access("/usr/sbin/sshd", X_OK) != 0) return "there is no sshd";
  const RunResult tried = run({.args = {"unshare", "--net", "--pid", "--mount", "--fork", "true"}});
  return tried.exit_code == 0 ? "" : "no namespaces are allowed here: " + tried.err;
}

Cluster::Cluster(int hosts, bool ipv6_only)
    : folder_("/tmp/hvd-cluster-" + std::to_string(::getpid())) {
  std::vector<std::string> args{script(), "up", std::to_string(hosts)};
  if (ipv6_only) args.emplace_back("--ipv6");
  const RunResult up = run({.args = args, .env = {{"HVD_CLUSTER", folder_}}});
  if (up.exit_code == 0) return;
  run({.args = {script(), "down"}, .env = {{"HVD_CLUSTER", folder_}}});
  throw std::runtime_error("scripts/cluster up: " + up.err);
}

Cluster::~Cluster() { run({.args = {script(), "down"}, .env = {{"HVD_CLUSTER", folder_}}}); }

std::vector<std::string> Cluster::on(const std::string& host, std::vector<std::string> args) const {
  args.insert(args.begin(), {"env", "HVD_CLUSTER=" + folder_, script(), "exec", host});
  return args;
}

RunResult Cluster::run_on(const std::string& host, std::vector<std::string> args) const {
  return run({.args = on(host, std::move(args))});
}

RunResult Cluster::hvdrun_on(const std::string& host, std::vector<std::string> args) const {
  args.insert(args.begin(), build_path("hvdrun"));
  return run_on(host, std::move(args));
}

}  // namespace hvdrun::test
