// Processes that hvdrun and its guards have not started are left alone; all others are ended. A
// shell that becomes hvdrun by exec has children; a login shell that becomes a guard may have some.
// An ssh client may leave one behind on purpose.
#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

// A process that is none of the job's: without its marker, and with neither of its outputs.
constexpr const char* kForeign =
    "env -u TEST_MARKER sleep 300 </dev/null >/dev/null 2>&1 & echo $! >>foreign; ";
constexpr const char* kLeftBehind =
    "(env -u TEST_MARKER setsid sleep 300 </dev/null >/dev/null 2>&1 & echo $! >>foreign); ";
// Each rank has a child, one in a session of its own and one that forked twice.
constexpr const char* kRankFamily =
    "sleep 300 & setsid sleep 300 & (setsid sleep 300 &) & trap '' TERM; sleep 300";

// A folder for what is written down by shells: the numbers of foreign processes above all, which
// are killed at the end.
class Scene {
 public:
  Scene() : marker(fresh_marker()), tag(marker.first + "=" + marker.second) {}
  ~Scene() {
    for (const pid_t pid : foreign()) ::kill(pid, SIGKILL);
  }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  RunOptions bash(const std::string& script) const {
    return {.args = {"bash", "-c", script},
            .env = {marker, {"XDG_CACHE_HOME", folder.path() + "/cache"}},
            .cwd = folder.path()};
  }
  std::string program(const std::string& name, const std::string& script) const {
    std::string path = folder.file(name, "#!/bin/bash\ncd " + folder.path() + "\n" + script + "\n");
    ::chmod(path.c_str(), 0700);
    return path;
  }
  std::vector<pid_t> foreign() const {
    std::ifstream file(folder.path() + "/foreign");
    std::vector<pid_t> pids;
    for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
    return pids;
  }
  // The number of them, if all of them are alive; else 0.
  std::size_t alive() const {
    const std::vector<pid_t> pids = foreign();
    std::size_t found = 0;
    for (const ProcessInfo& info : all_processes())
      for (const pid_t pid : pids) found += info.pid == pid ? 1 : 0;
    return found == pids.size() ? found : 0;
  }

  TempFolder folder;
  std::pair<std::string, std::string> marker;
  std::string tag;
};

std::string hvdrun_words() { return build_path("hvdrun") + " --tag-output off "; }

// A host that is reached by a program, and is this machine.
std::string by(const std::string& program) {
  return hvdrun_words() + "--ssh '" + program + " {host} {command}' --advertise 127.0.0.1 " +
         "-H 192.0.2.1:4 ";
}

TEST_CASE("a process substitution of the shell that becomes hvdrun gets all output", "[foreign]") {
  const Scene scene;
  const RunResult result =
      run(scene.bash("exec > >(gzip >out.gz); exec " + hvdrun_words() + "-np 2 echo text"));
  CHECK(result.exit_code == 0);
  CHECK(run({.args = {"gzip", "-dc", scene.folder.path() + "/out.gz"}}).out == "text\ntext\n");
}

TEST_CASE(
    "children of a shell that becomes hvdrun or a guard live on, and what they fork meanwhile",
    "[foreign]") {
  const Scene scene;
  // While the rank runs, a child of before leaves a child of its own behind, which a sub-reaper
  // above it would adopt.
  const std::string before = "(read -r _ <started; " + std::string(kLeftBehind) +
                             "echo >forked; exec env -u TEST_MARKER sleep 300) </dev/null "
                             ">/dev/null 2>&1 & echo $! >>foreign; ";
  const std::string rank = "-np 1 sh -c 'echo >started; read -r _ <forked; setsid sleep 300 &'";
  const std::string reach = scene.program("reach", before + "exec sh -c \"$2\"");
  const bool is_guard = GENERATE(false, true);
  CAPTURE(is_guard);
  const std::string start = is_guard ? "exec " + by(reach) : before + "exec " + hvdrun_words();
  const RunResult result = run(scene.bash("mkfifo started forked; " + start + rank));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(scene.alive() == 2);
  CHECK(wait_until_gone(scene.tag, 100ms).empty());
}

TEST_CASE("signals and exit codes of a shell that becomes hvdrun", "[foreign]") {
  const Scene scene;
  const std::string job = kForeign + ("exec " + hvdrun_words());
  CHECK(run(scene.bash(job + "-np 2 sh -c 'exit 7'")).exit_code == 7);
  Background interrupted(scene.bash(job + "-np 2 sh -c 'echo ready; exec sleep 300'"));
  interrupted.wait_for_output("ready\nready\n", 10s);
  kill(interrupted.pid(), SIGINT);
  CHECK(interrupted.wait(5s) == 130);
  // Twice: at once, whatever the ranks do with the first.
  Background twice(scene.bash(job + "--grace 60 -np 2 sh -c 'trap \"echo heard\" TERM; echo ready; "
                                    "while :; do sleep 0.05; done'"));
  twice.wait_for_output("ready\nready\n", 10s);
  kill(twice.pid(), SIGTERM);
  twice.wait_for_output("heard\n", 10s);
  // Two within a moment would be one.
  for (int i = 0; i < 50 && twice.wait(100ms) == -1; ++i) kill(twice.pid(), SIGTERM);
  CHECK(twice.wait(0ms) == 143);
  CHECK(scene.alive() == 3);
  CHECK(wait_until_gone(scene.tag, 100ms).empty());
}

TEST_CASE("whoever is killed, of a shell that became hvdrun only the job is ended", "[foreign]") {
  const auto [victims, code] =
      GENERATE(table<std::string, int>({{"hvdrun", 137},
                                        {"hvd-coordinator", 70},
                                        {"hvd-keeper", 69},
                                        {"hvd-guard", 69},
                                        {"hvd-agent", 69},
                                        {"hvd-keeper hvd-guard", 69},
                                        {"hvd-keeper hvd-agent", 69},
                                        {"hvd-guard hvd-agent", 69},
                                        {"hvdrun hvd-keeper", 137},
                                        {"hvdrun hvd-guard hvd-agent", 137}}));
  CAPTURE(victims);
  const Scene scene;
  Background job(scene.bash(kForeign + ("exec " + hvdrun_words()) + "--grace 0.2 -np 2 sh -c \"" +
                            kRankFamily + "\""));
  const auto before = wait_for_processes(scene.tag,
                                         {{"hvdrun", 1},
                                          {"hvd-coordinator", 1},
                                          {"hvd-keeper", 1},
                                          {"hvd-guard", 1},
                                          {"hvd-agent", 1},
                                          {"sh", 2},
                                          {"sleep", 8}},
                                         10s);
  REQUIRE(before.size() == 15);
  // Stopped first, so that none sees another's end. A keeper that is not may be faster than we.
  for (const int signal : {SIGSTOP, SIGKILL})
    for (const ProcessInfo& info : before)
      if ((" " + victims + " ").find(" " + info.name + " ") != std::string::npos)
        REQUIRE((kill(info.pid, signal) == 0 || (signal == SIGKILL && errno == ESRCH)));
  CHECK(wait_until_gone(scene.tag, 1000ms).empty());
  CHECK(job.wait(3s) == code);
  CHECK(scene.alive() == 1);
}

TEST_CASE("a guard that works in a child of the process that was started", "[foreign]") {
  const bool kills_outer = GENERATE(true, false);
  CAPTURE(kills_outer);
  const Scene scene;
  const std::string reach = scene.program("reach", kForeign + std::string("exec sh -c \"$2\""));
  Background job(
      scene.bash("exec " + by(reach) + "--grace 0.2 -np 2 sh -c \"" + kRankFamily + "\""));
  const auto before = wait_for_processes(scene.tag,
                                         {{"hvdrun", 1},
                                          {"hvd-coordinator", 1},
                                          {"hvd-guard", 2},
                                          {"hvd-agent", 1},
                                          {"sh", 2},
                                          {"sleep", 8}},
                                         10s);
  REQUIRE(before.size() == 15);
  pid_t inner = 0;
  pid_t outer = 0;
  for (const ProcessInfo& info : before)
    if (info.name == "hvd-agent") inner = info.parent;
  for (const ProcessInfo& info : before)
    if (info.pid == inner) outer = info.parent;
  const pid_t victim = kills_outer ? outer : inner;
  REQUIRE(kill(victim, SIGKILL) == 0);
  CHECK(wait_until_gone(scene.tag, 1000ms).empty());
  CHECK(job.wait(3s) == 69);
  CHECK(scene.alive() == 1);
}

TEST_CASE("a session that others hold open is not waited for", "[foreign]") {
  const Scene scene;
  // As sshd with a client, when something of a login shell has the session's stdout.
  const std::string client = scene.program("client", "sh -c \"$2\"; exec sleep 300");
  const RunResult result = run(scene.bash("exec " + by(client) + "-np 1 echo text"));
  INFO(result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.out == "text\n");
  CHECK(result.time < 8s);  // not twice the time for output to be read
  CHECK(wait_until_gone(scene.tag, 100ms).empty());
}

TEST_CASE("a rank's output that others hold open is not waited for", "[foreign]") {
  const auto [is_elsewhere, code] = GENERATE(table<bool, int>({{false, 0}, {true, 3}}));
  CAPTURE(is_elsewhere);
  const Scene scene;
  const std::string reach = scene.program("reach", "exec sh -c \"$2\"");
  Background job(scene.bash("mkfifo go; exec " + (is_elsewhere ? by(reach) : hvdrun_words()) +
                            "-np 1 sh -c 'echo rank $$.; read -r _ <go; printf last; exit " +
                            std::to_string(code) + "'"));
  const std::string said = job.wait_for_output(".\n", 10s);
  const auto number = said.rfind("rank ") + 5;
  const std::string rank = said.substr(number, said.rfind(".\n") - number);
  // As a daemon has it to which a rank has handed a descriptor.
  const int held = ::open(("/proc/" + rank + "/fd/1").c_str(), O_WRONLY | O_CLOEXEC);
  REQUIRE(held >= 0);
  std::ofstream(scene.folder.path() + "/go") << "\n";
  CHECK(job.wait(20s) == code);
  ::close(held);
  INFO(job.output());
  const auto has = [&](const std::string& text) {
    return job.output().find(text) != std::string::npos;
  };
  CHECK(has("last"));
  CHECK(has(": the rest of stdout of rank 0 is not shown: process " + std::to_string(::getpid()) +
            " ("));
  CHECK_FALSE(has("does not answer"));
  CHECK(wait_until_gone(scene.tag, 100ms).empty());
}

TEST_CASE("a client and what it works with are ended, not what it has left behind", "[foreign]") {
  const Scene scene;
  // As ssh that connects through a ProxyCommand, in whose configuration is a ControlPersist.
  const std::string client =
      scene.program("client", kLeftBehind + std::string("sleep 300; sleep 300"));
  Background job(scene.bash("exec " + by(client) + "-np 1 true"));
  wait_for_processes(scene.tag,
                     {{"hvdrun", 1}, {"hvd-coordinator", 1}, {"client", 1}, {"sleep", 1}}, 10s);
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(10s) == 143);
  CHECK(wait_until_gone(scene.tag, 1000ms).empty());
  CHECK(scene.alive() == 1);
}

}  // namespace
}  // namespace hvdrun::test
