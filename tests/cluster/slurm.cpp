#include "tests/cluster/slurm.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <unistd.h>

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kCpus = 8;  // of each host, whatever this machine has
constexpr auto kUpLimit = 30s;

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

}  // namespace

std::string Slurm::missing() {
  if (const std::string reason = Cluster::missing(); !reason.empty()) return reason;
  for (const char* const program : {"/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd",
                                    "/usr/bin/salloc", "/usr/bin/srun"})
    if (::access(program, X_OK) != 0)
      return std::string("there is no ") + program + "; scripts/setup --test installs it";
  return {};
}

Slurm::Slurm(const Cluster& cluster, int hosts)
    : cluster_(cluster), folder_(cluster.folder() + "/slurm") {
  write_configuration(hosts);
  // One for all hosts: its socket is a file, and these they share.
  start("node1", {"/usr/sbin/munged", "--foreground", "--force", "--key-file=" + folder_ + "/key",
                  "--socket=" + folder_ + "/munge", "--pid-file=" + folder_ + "/munged.pid",
                  "--log-file=" + folder_ + "/munged.log", "--seed-file=" + folder_ + "/seed"});
  const auto deadline = std::chrono::steady_clock::now() + kUpLimit;
  while (!fs::exists(folder_ + "/munge")) {
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("munged did not come up: " + logs());
    ::usleep(20'000);
  }
  start("node1", {"/usr/sbin/slurmctld", "-D", "-f", folder_ + "/slurm.conf"});
  for (int host = 1; host <= hosts; ++host)
    start("node" + std::to_string(host), {"/usr/sbin/slurmd", "-D", "-f", folder_ + "/slurm.conf"});
  wait_for_hosts(hosts);
  allocate(hosts);
}

// Jobs of several components are started by the backfill scheduler alone, every 30 s unless told.
// No cgroups: the hosts have none of their own. With proctrack/pgid Slurm kills only the process
// group of a task, so that nothing but hvdrun ends the rest. KillWait is what srun and slurmd wait
// for processes that do not end.
void Slurm::write_configuration(int hosts) const {
  fs::create_directories(folder_ + "/state");
  std::ofstream(folder_ + "/key") << std::string(64, 'k') << ::getpid();
  fs::permissions(folder_ + "/key", fs::perms::owner_read | fs::perms::owner_write);
  const std::string range = "node[1-" + std::to_string(hosts) + "]";
  std::ofstream(folder_ + "/cgroup.conf") << "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n";
  // Two GPUs each, which are none, numbered differently on each host.
  std::ofstream gpus(folder_ + "/gres.conf");
  for (int host = 0; host < hosts; ++host) {
    const auto first = std::to_string(2 * host);
    const auto second = std::to_string(2 * host + 1);
    // slurmd wants devices. These are as /dev/null.
    for (const std::string& number : {first, second})
      test::run({.args = {"mknod", folder_ + "/gpu" + number, "c", "1", "3"}});
    gpus << "NodeName=node" << host + 1 << " Name=gpu File=" << folder_ << "/gpu[" << first << "-"
         << second << "]\n";
  }
  std::ofstream(folder_ + "/slurm.conf")
      << "ClusterName=hvd\nSlurmctldHost=node1\nSlurmUser=root\nSlurmdUser=root\n"
      << "AuthType=auth/munge\nAuthInfo=socket=" << folder_ << "/munge\n"
      << "StateSaveLocation=" << folder_ << "/state\nSlurmdSpoolDir=" << folder_ << "/spool-%n\n"
      << "SlurmctldPidFile=" << folder_ << "/slurmctld.pid\n"
      << "SlurmdPidFile=" << folder_ << "/slurmd-%n.pid\n"
      << "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nMpiDefault=none\n"
      << "JobAcctGatherType=jobacct_gather/none\nSwitchType=switch/none\n"
      << "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nGresTypes=gpu\n"
      << "SchedulerType=sched/backfill\nSchedulerParameters=bf_interval=1\n"
      << "SlurmdParameters=config_overrides\nReturnToService=2\nKillWait=2\nMessageTimeout=5\n"
      << "NodeName=" << range << " CPUs=" << kCpus << " Gres=gpu:2 State=UNKNOWN\n"
      << "PartitionName=all Nodes=" << range << " Default=YES MaxTime=INFINITE State=UP\n";
}

void Slurm::start(const std::string& host, const std::vector<std::string>& daemon) {
  const std::string log = folder_ + "/" + fs::path(daemon.front()).filename().string() + "-" + host;
  std::vector<std::string> args{"sh", "-c", "exec \"$@\" >" + log + ".out 2>&1", "_"};
  args.insert(args.end(), daemon.begin(), daemon.end());
  daemons_.push_back(std::make_unique<Background>(RunOptions{.args = cluster_.on(host, args)}));
}

void Slurm::wait_for_hosts(int hosts) const {
  const auto deadline = std::chrono::steady_clock::now() + kUpLimit;
  for (;;) {
    const RunResult info = run({"sinfo", "-h", "-N", "-o", "%N %T"});
    std::size_t idle = 0;
    for (const std::string& line : split_lines(info.out))
      if (line.ends_with(" idle")) ++idle;
    if (idle == static_cast<std::size_t>(hosts)) return;
    if (std::chrono::steady_clock::now() > deadline)
      throw std::runtime_error("Slurm's hosts did not come up: " + info.out + info.err + logs());
    ::usleep(100'000);
  }
}

void Slurm::allocate(int hosts) {
  salloc_ = std::make_unique<Background>(RunOptions{
      .args = cluster_.on(
          "node1", words({"salloc", "-N", std::to_string(hosts), "--ntasks-per-node=2",
                          "--gres=gpu:2", "sh", "-c", "env; echo allocated; exec sleep 1000"}))});
  const std::string said = salloc_->wait_for_output("allocated\n", kUpLimit);
  for (const std::string& line : split_lines(said))
    if (line.starts_with("SLURM_")) allocation_.push_back(line);
}

std::string Slurm::logs() const {
  std::string text;
  for (const auto& file : fs::directory_iterator(folder_)) {
    if (file.path().extension() != ".out") continue;
    std::ifstream stream(file.path());
    std::stringstream all;
    all << stream.rdbuf();
    const std::string said = all.str();
    text += "\n" + file.path().filename().string() + ": " +
            said.substr(said.size() > 1000 ? said.size() - 1000 : 0);
  }
  return text;
}

std::vector<std::string> Slurm::words(std::vector<std::string> command) const {
  command.insert(command.begin(), {"env", "SLURM_CONF=" + folder_ + "/slurm.conf"});
  return command;
}

RunResult Slurm::run(std::vector<std::string> command) const {
  return cluster_.run_on("node1", words(std::move(command)));
}

std::vector<std::string> Slurm::steps(const std::string& host) const {
  return split_lines(run({"squeue", "-h", "-s", "-w", host, "-o", "%i"}).out);
}

}  // namespace hvdrun::test
