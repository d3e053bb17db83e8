#include "tests/cluster/cluster.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

namespace hvdrun::test {
namespace {

namespace fs = std::filesystem;

std::string script() { return source_path("scripts/cluster"); }

}  // namespace

std::string Cluster::missing() {
  const char* const sanitizer = std::getenv("HVD_TEST_SANITIZE");  // NOLINT(concurrency-mt-unsafe)
  if (sanitizer != nullptr && std::string(sanitizer) == "thread")
    return "the programs that a job over hosts adds have one thread each";
  if (::geteuid() != 0) return "hosts in network namespaces need root";
  if (::access("/usr/sbin/sshd", X_OK) != 0) return "there is no sshd";
  const RunResult tried = run({.args = {"unshare", "--net", "--pid", "--mount", "--fork", "true"}});
  return tried.exit_code == 0 ? "" : "no namespaces are allowed here: " + tried.err;
}

bool has_sshd_session() { return ::access("/usr/lib/openssh/sshd-session", F_OK) == 0; }

std::string without_waiting(const std::string& text) {
  std::string rest;
  for (const std::string& line : set_of_lines(text))
    if (line.find("still waiting for ") == std::string::npos) rest += line + "\n";
  return rest;
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

void Cluster::act(const std::string& verb, const std::string& host) const {
  const RunResult done = run({.args = {script(), verb, host}, .env = {{"HVD_CLUSTER", folder_}}});
  if (done.exit_code != 0) throw std::runtime_error("scripts/cluster " + verb + ": " + done.err);
}

std::vector<ProcessInfo> Cluster::processes(const std::string& host) const {
  std::ifstream file(folder_ + "/" + host + "/outer");
  std::string outer;
  std::getline(file, outer);
  // Its children are in the name space of the host; it is not itself.
  std::error_code gone;
  const auto space = fs::read_symlink("/proc/" + outer + "/ns/pid_for_children", gone);
  std::vector<ProcessInfo> found;
  if (gone) return found;
  for (const ProcessInfo& info : all_processes())
    if (fs::read_symlink("/proc/" + std::to_string(info.pid) + "/ns/pid", gone) == space)
      found.push_back(info);
  return found;
}

std::vector<ProcessInfo> Cluster::processes_of_job(const std::string& host,
                                                   const std::string& marker) const {
  std::vector<ProcessInfo> found = processes(host);
  std::erase_if(found, [&](const ProcessInfo& info) {
    return !info.name.starts_with("hvd") && !info.cmdline.starts_with("ssh -T") &&
           info.environ.find(marker) == std::string::npos;
  });
  return found;
}

RunResult Cluster::hvdrun_on(const std::string& host, std::vector<std::string> args) const {
  args.insert(args.begin(), build_path("hvdrun"));
  return run_on(host, std::move(args));
}

}  // namespace hvdrun::test
