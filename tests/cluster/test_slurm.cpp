// Jobs within a Slurm allocation, whose hosts srun opens, with a real slurmctld and slurmd.
#include <algorithm>
#include <filesystem>
#include <signal.h>
#include <sstream>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/cluster/slurm.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kStays = "echo ready; setsid sleep 1000.25 & exec sleep 1000.25";

bool left_out() {
  const std::string reason = Slurm::missing();
  if (!reason.empty()) WARN("left out: " << reason);
  return !reason.empty();
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::size_t count_named(const std::vector<ProcessInfo>& processes, const std::string& name) {
  return static_cast<std::size_t>(
      std::count_if(processes.begin(), processes.end(),
                    [&](const ProcessInfo& info) { return info.name == name; }));
}

// The place within the allocation of the fixture: words in front of a program's.
std::vector<std::string> within(const Slurm& slurm) {
  std::vector<std::string> words = slurm.words({});
  words.insert(words.end(), slurm.allocation().begin(), slurm.allocation().end());
  return words;
}

RunResult hvdrun_within(const Cluster& cluster, const Slurm& slurm, std::vector<std::string> more,
                        std::vector<std::string> args) {
  std::vector<std::string> words = within(slurm);
  words.insert(words.end(), more.begin(), more.end());
  words.push_back(build_path("hvdrun"));
  words.insert(words.end(), args.begin(), args.end());
  return cluster.run_on("node1", words);
}

std::size_t agents_on(const Cluster& cluster, const std::string& host) {
  return count_named(cluster.processes(host), "hvd-agent");
}

}  // namespace

TEST_CASE("within a Slurm allocation, srun opens its hosts", "[cluster][slurm]") {
  if (!takes_turn(2)) return;
  if (left_out()) return;
  const Cluster cluster(3);
  const Slurm slurm(cluster, 3);
  const std::string show = "echo $HVD_RANK $HVD_LOCAL_RANK $HVD_CROSS_RANK $(hostname)";
  const std::vector<std::string> placed{"0 0 0 node1", "1 1 0 node1", "2 0 1 node2",
                                        "3 1 1 node2", "4 0 2 node3", "5 1 2 node3"};

  // Nothing is named: neither hosts nor ranks. No key lets anybody in by ssh.
  cluster.run_on("node1", {"sh", "-c", "rm $HOME/.ssh/id_ed25519"});
  const RunResult job = slurm.run({"salloc", "-N3", "--ntasks-per-node=2", build_path("hvdrun"),
                                   "--verbose", "--tag-output", "off", "sh", "-c", show});
  CAPTURE(job.err);
  CHECK(job.exit_code == 0);
  CHECK(sorted_lines(job.out) == placed);
  CHECK(contains(job.err, "node2: opened by srun, as a job step"));
  CHECK(contains(job.err, "node3: opened by srun, as a job step"));
  CHECK_FALSE(contains(job.err, "node1: opened by"));

  // A job of several components has the hosts of all, each opened within its own.
  const RunResult several =
      slurm.run({"salloc", "-N1", "--ntasks-per-node=1", "-w", "node1", ":", "-N2",
                 "--ntasks-per-node=2", "-w", "node[2-3]", build_path("hvdrun"), "--verbose",
                 "--tag-output", "off", "sh", "-c", show});
  CAPTURE(several.err);
  CHECK(several.exit_code == 0);
  CHECK(sorted_lines(several.out) == std::vector<std::string>{"0 0 0 node1", "1 0 1 node2",
                                                              "2 1 0 node2", "3 0 2 node3",
                                                              "4 1 1 node3"});
  CHECK(contains(several.err, "node3: opened by srun, as a job step"));

  // Settings that salloc or an outer step may have made for their own tasks are not for ours; and a
  // rank is in no step as far as it can see.
  const RunResult odd = hvdrun_within(
      cluster, slurm,
      {"SLURM_LABELIO=1", "SLURM_NTASKS=6", "SLURM_STDINMODE=none", "SLURM_CPUS_PER_TASK=8",
       "SLURM_EXACT=1", "SLURM_PROCID=3"},
      {"--tag-output", "off", "-np", "2", "-H", "node2:1,node3:1", "sh", "-c",
       "echo $HVD_RANK $SLURM_JOB_ID ${SLURM_PROCID-none} ${SLURM_STEP_ID-none} $PWD"});
  CAPTURE(odd.err);
  CHECK(odd.exit_code == 0);
  std::string id = "no id";
  for (const std::string& entry : slurm.allocation())
    if (entry.starts_with("SLURM_JOB_ID=")) id = entry.substr(entry.find('=') + 1);
  const std::string same = " " + id + " none none " + std::filesystem::current_path().string();
  CHECK(sorted_lines(odd.out) == std::vector<std::string>{"0" + same, "1" + same});

  // As srun hands it on: the umask of who started it.
  const RunResult masks = hvdrun_within(
      cluster, slurm, {"sh", "-c", "umask 027; exec \"$@\"", "sh"},
      {"--tag-output", "off", "-np", "2", "-H", "node1:1,node2:1", "sh", "-c", "umask"});
  CHECK(masks.out == "0027\n0027\n");

  // hvdrun raises its own limit of open files; programs have the user's on every host.
  const RunResult files = hvdrun_within(
      cluster, slurm, {"prlimit", "--nofile=500:4000"},
      {"--tag-output", "off", "-np", "2", "-H", "node1:1,node2:1", "sh", "-c", "ulimit -Sn"});
  CHECK(files.out == "500\n500\n");

  // GPUs are what Slurm says on each host, not what it has said to hvdrun on its own.
  const auto gpus = [&](std::vector<std::string> options) {
    options.insert(options.end(), {"--tag-output", "off", "-np", "2", "-H", "node1:1,node2:1", "sh",
                                   "-c", "echo $HVD_RANK $CUDA_VISIBLE_DEVICES"});
    return sorted_lines(
        hvdrun_within(cluster, slurm, {"CUDA_VISIBLE_DEVICES=9"}, std::move(options)).out);
  };
  std::vector<std::string> ask = within(slurm);
  for (const char* const word :
       {"srun", "--overlap", "-N1", "-n1", "-w", "node2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"})
    ask.emplace_back(word);
  const std::string there = cluster.run_on("node1", ask).out;
  CHECK(there.size() >= 4);  // two of them
  CHECK(gpus({}) == std::vector<std::string>{"0 9", "1 " + there.substr(0, there.size() - 1)});
  CHECK(gpus({"-x", "CUDA_VISIBLE_DEVICES=7"}) == std::vector<std::string>{"0 7", "1 7"});

  // Input and exit code.
  RunOptions input;
  input.args = within(slurm);
  for (const std::string& word :
       {build_path("hvdrun"), std::string("--tag-output"), std::string("off"),
        std::string("--stdin"), std::string("0"), std::string("-H"), std::string("node3:1"),
        std::string("sh"), std::string("-c"), std::string("cat; exit 5")})
    input.args.push_back(word);
  input.args = cluster.on("node1", input.args);
  input.input = "over there\n";
  const RunResult read = run(input);
  CHECK(read.out == "over there\n");
  CHECK(read.exit_code == 5);

  // Where hvdrun's ports cannot be reached, what agents say goes through srun, whatever its bytes.
  REQUIRE(
      cluster
          .run_on("node1", {"iptables", "-A", "INPUT", "-i", "eth0", "-p", "tcp", "--syn",
                            "--dport", "6000:6003", "-j", "REJECT", "--reject-with", "tcp-reset"})
          .exit_code == 0);
  const RunResult relayed =
      hvdrun_within(cluster, slurm, {},
                    {"--port-range", "6000-6003", "--tag-output", "off", "--env-compat", "torch",
                     "-H", "node2:2", "sh", "-c", "head -c 400000 /dev/zero | tr '\\0' x; echo"});
  CAPTURE(relayed.err);
  CHECK(relayed.exit_code == 0);
  CHECK(contains(relayed.err, "node2 cannot reach this machine"));
  CHECK(contains(relayed.err, "its control and output go through srun"));
  CHECK(std::count(relayed.out.begin(), relayed.out.end(), 'x') == 800'000);
}

TEST_CASE("what srun refuses is told in its words", "[cluster][slurm]") {
  if (!takes_turn(2)) return;
  if (left_out()) return;
  const Cluster cluster(2);
  const Slurm slurm(cluster, 2);
  const std::vector<std::string> job{"-np", "1", "-H", "node2:1", "echo", "started"};
  const RunResult unknown = hvdrun_within(cluster, slurm, {"SLURM_JOB_ID=99999"}, job);
  CAPTURE(unknown.err);
  CHECK(unknown.exit_code == 69);
  CHECK(unknown.out.empty());
  CHECK(contains(unknown.err, "host node2 (starting a job step): srun: error: "));
  CHECK(contains(unknown.err, "Invalid job id"));
  CHECK(contains(unknown.err,
                 "to see it by hand: srun --overlap --nodes=1 --ntasks=1 --nodelist=node2 true"));
  CHECK(contains(unknown.err, "nothing was started"));
  // No slurmd there.
  for (const ProcessInfo& info : cluster.processes("node2"))
    if (info.name == "slurmd") ::kill(info.pid, SIGKILL);
  std::vector<std::string> hurried{"--start-timeout", "25"};
  hurried.insert(hurried.end(), job.begin(), job.end());
  const RunResult dead = hvdrun_within(cluster, slurm, {}, hurried);
  CAPTURE(dead.err);
  CHECK(dead.exit_code == 69);
  CHECK(dead.out.empty());
  CHECK(contains(dead.err, "host node2 (starting a job step): srun: error: "));
  for (const ProcessInfo& info : cluster.processes("node1"))
    CHECK_FALSE(info.cmdline.starts_with("srun "));
}

TEST_CASE("whatever ends a job step ends the job, and nothing is left", "[cluster][slurm]") {
  if (!takes_turn(2)) return;
  if (left_out()) return;
  const Cluster cluster(2);
  const Slurm slurm(cluster, 2);
  const std::vector<std::string> hosts{"node1", "node2"};
  struct Way {
    const char* what;
    const char* host;
    const char* who;  // empty: scancel
    int signal;
    int exit_code;
    const char* said;
  };
  std::size_t lost = 0;
  for (const Way& way :
       {Way{"scancel of the step", "", "", 0, 69, "its job step was ended: STEP "},
        Way{"slurmstepd killed", "node2", "slurmstepd", SIGKILL, 69, "host node2 was lost"},
        Way{"srun killed", "node1", "srun", SIGKILL, 69, "host node2 was lost"},
        Way{"guard killed", "node2", "hvd-guard", SIGKILL, 69, "host node2 was lost"},
        Way{"agent killed", "node2", "hvd-agent", SIGKILL, 69, "host node2 was lost"},
        Way{"hvdrun killed", "node1", "hvdrun", SIGKILL, 137, ""},
        Way{"hvdrun interrupted", "node1", "hvdrun", SIGINT, 130, "ended by signal 2"}}) {
    HostJob job(cluster, {"-np", "2", "-H", "node1:1,node2:1", "sh", "-c", kStays}, 2,
                within(slurm));
    CHECK(agents_on(cluster, "node2") == 1);
    const std::vector<std::string> steps = slurm.steps("node2");
    REQUIRE_FALSE(steps.empty());
    job.begin();
    if (*way.who == '\0') {
      CHECK(slurm.run({"scancel", steps.back()}).exit_code == 0);
    } else {
      bool found = false;
      for (const ProcessInfo& info : cluster.processes(way.host))
        if (!found && info.name == way.who) found = ::kill(info.pid, way.signal) == 0;
      CHECK(found);
    }
    check_end(way.what, job.end(hosts, 15s), way.exit_code, way.said);
    // Slurm knows that too, unless it was its own process that was killed.
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    const std::size_t stale = way.who == std::string("slurmstepd") ? 1 : 0;
    lost += stale;
    while (slurm.steps("node2").size() > lost && std::chrono::steady_clock::now() < deadline)
      ::usleep(100'000);
    CHECK(slurm.steps("node2").size() <= lost);
  }
  {
    // A user who interrupts twice does not wait, and has no time to let srun end by itself.
    HostJob job(cluster,
                {"--grace", "20", "-np", "2", "-H", "node1:1,node2:1", "sh", "-c",
                 "trap '' TERM; echo ready; while :; do sleep 1000.25; done"},
                2, within(slurm));
    job.begin();
    for (int time = 0; time < 2; ++time) {
      for (const ProcessInfo& info : cluster.processes("node1"))
        if (info.name == "hvdrun") ::kill(info.pid, SIGINT);
      ::usleep(300'000);
    }
    check_end("hvdrun interrupted twice", job.end(hosts, 15s), 130, "killing everything at once");
  }
  HostJob job(cluster, {"-np", "2", "-H", "node1:1,node2:1", "sh", "-c", kStays}, 2, within(slurm));
  const std::string id = slurm.steps("node2").back();
  job.begin();
  CHECK(slurm.run({"scancel", id.substr(0, id.find('.'))}).exit_code == 0);
  check_end("scancel of the allocation", job.end(hosts, 15s), 69, "its job step was ended: STEP ");
}

}  // namespace hvdrun::test
