// Signals of hvdrun's user, and its own descriptors, closed, full or gone.
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sys/wait.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

struct MarkedJob {
  explicit MarkedJob(std::vector<std::string> args)
      : marker(fresh_marker()), tag(marker.first + "=" + marker.second), job([&] {
          args.insert(args.begin(), build_path("hvdrun"));
          return RunOptions{.args = args, .env = {marker}};
        }()) {}
  std::pair<std::string, std::string> marker;
  std::string tag;
  Background job;
};

char state_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat;
  std::getline(file, stat);
  const auto name_end = stat.rfind(')');
  return name_end == std::string::npos ? '?' : stat[name_end + 2];
}

bool wait_for_state(pid_t pid, char state) {
  const auto deadline = std::chrono::steady_clock::now() + 5s;
  while (state_of(pid) != state)
    if (std::chrono::steady_clock::now() > deadline) return false;
  return true;
}

TEST_CASE("signals of the table are passed on to every rank", "[signals]") {
  const std::string program =
      "for s in USR1 USR2 WINCH; do trap \"echo got $s\" $s; done; echo ready; "
      "while :; do sleep 0.05; done";
  MarkedJob marked({"-np", "2", "sh", "-c", program});
  for (const char* rank : {"0", "1"})
    marked.job.wait_for_output("[" + std::string(rank) + "]<stdout>:ready", 10s);
  for (const auto& [signal, name] :
       {std::pair{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGWINCH, "WINCH"}}) {
    kill(marked.job.pid(), signal);
    for (const char* rank : {"0", "1"})
      marked.job.wait_for_output("[" + std::string(rank) + "]<stdout>:got " + name, 5s);
  }
  kill(marked.job.pid(), SIGTERM);
  CHECK(marked.job.wait(5s) == 143);
  CHECK(wait_until_gone(marked.tag, 1s).empty());
}

TEST_CASE("SIGQUIT prints where every rank stands", "[signals]") {
  MarkedJob marked({"-np", "2", "sh", "-c", "echo epoch 7; exec sleep 300"});
  for (const char* rank : {"0", "1"})
    marked.job.wait_for_output("[" + std::string(rank) + "]<stdout>:epoch 7", 10s);
  for (const auto& info : wait_for_processes(marked.tag,
                                             {{"hvdrun", 1},
                                              {"hvd-coordinator", 1},
                                              {"hvd-guard", 1},
                                              {"hvd-agent", 1},
                                              {"sleep", 2}},
                                             10s))
    if (info.name == "sleep") CHECK(wait_for_state(info.pid, 'S'));
  kill(marked.job.pid(), SIGQUIT);
  const std::string text = marked.job.wait_for_output("rank 1 on localhost: started, pid ", 5s);
  CHECK(text.find("2 ranks of sh -c") != std::string::npos);
  const std::string rest = marked.job.wait_for_output("last line: epoch 7\n", 5s);
  CHECK(rest.find("sleeping") != std::string::npos);
  kill(marked.job.pid(), SIGINT);
  CHECK(marked.job.wait(5s) == 130);
}

TEST_CASE("stop and continue go to the ranks too", "[signals]") {
  MarkedJob marked({"-np", "2", "sh", "-c", "echo ready; exec sleep 300"});
  for (const char* rank : {"0", "1"})
    marked.job.wait_for_output("[" + std::string(rank) + "]<stdout>:ready", 10s);
  const auto all = wait_for_processes(
      marked.tag,
      {{"hvdrun", 1}, {"hvd-coordinator", 1}, {"hvd-guard", 1}, {"hvd-agent", 1}, {"sleep", 2}},
      10s);
  kill(marked.job.pid(), SIGTSTP);
  for (const auto& info : all)
    if (info.name == "sleep") CHECK(wait_for_state(info.pid, 'T'));
  CHECK(wait_for_state(marked.job.pid(), 'T'));
  kill(marked.job.pid(), SIGCONT);
  for (const auto& info : all)
    if (info.name == "sleep") CHECK(wait_for_state(info.pid, 'S'));
  kill(marked.job.pid(), SIGINT);
  CHECK(marked.job.wait(5s) == 130);
  CHECK(wait_until_gone(marked.tag, 1s).empty());
}

TEST_CASE("a stopped rank is ended like any other", "[signals]") {
  MarkedJob marked({"--grace", "30", "-np", "2", "sh", "-c", "echo ready; kill -STOP $$; sleep 9"});
  marked.job.wait_for_output("[0]<stdout>:ready", 10s);
  marked.job.wait_for_output("[1]<stdout>:ready", 10s);
  for (const auto& info : processes_with(marked.tag))
    if (info.name == "sh") CHECK(wait_for_state(info.pid, 'T'));
  kill(marked.job.pid(), SIGTERM);
  CHECK(marked.job.wait(5s) == 143);  // long before the grace is over
  CHECK(wait_until_gone(marked.tag, 1s).empty());
}

TEST_CASE("the ladder is climbed rung by rung", "[signals]") {
  const std::string program =
      "trap 'echo got INT' INT; trap 'echo got TERM' TERM; echo ready; "
      "while :; do sleep 0.05; done";
  MarkedJob marked({"--grace", "INT,0.3s,TERM,0.3s,KILL", "-np", "1", "sh", "-c", program});
  marked.job.wait_for_output("ready", 10s);
  const auto begin = std::chrono::steady_clock::now();
  kill(marked.job.pid(), SIGTERM);
  marked.job.wait_for_output("got INT", 5s);
  marked.job.wait_for_output("got TERM", 5s);
  CHECK(marked.job.wait(5s) == 143);
  CHECK(std::chrono::steady_clock::now() - begin >= 600ms);
  CHECK(wait_until_gone(marked.tag, 1s).empty());
}

TEST_CASE("what was ignored when hvdrun started stays ignored", "[signals]") {
  MarkedJob marked({"-np", "1", "sh", "-c", "echo ready; exec sleep 300"});
  const auto marker = fresh_marker();
  Background job({.args = {"sh", "-c",
                           "trap '' HUP; exec " + build_path("hvdrun") +
                               " -np 1 sh -c 'echo ready; sleep 0.5; echo done'"},
                  .env = {marker}});
  job.wait_for_output("ready", 10s);
  kill(job.pid(), SIGHUP);
  CHECK_NOTHROW(job.wait_for_output("done", 10s));
  CHECK(job.wait(5s) == 0);
}

TEST_CASE("closed and full descriptors of hvdrun", "[signals]") {
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  const auto shell = [&](const std::string& redirections, const std::string& program) {
    return run({.args = {"sh", "-c", build_path("hvdrun") + " -np 2 " + program + redirections},
                .env = {marker}});
  };
  CHECK(shell(" <&-", "true").exit_code == 0);
  CHECK(shell(" <&- >&- 2>&-", "true").exit_code == 0);
  // Output that cannot be written is a fault.
  CHECK(shell(" >&-", "echo text").exit_code == 74);
  CHECK(shell(" <&- >&- 2>&-", "echo text").exit_code == 74);
  const RunResult full = shell(" >/dev/full", "echo text");
  CHECK(full.exit_code == 74);
  CHECK(full.err.find("No space left on device") != std::string::npos);
  // A reader that goes away ends the job as it ends any program in a pipe.
  const RunResult pipe =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") + " -np 2 yes | head -n 3; exit ${PIPESTATUS[0]}"},
           .env = {marker}});
  CHECK(pipe.exit_code == 141);
  CHECK(wait_until_gone(tag, 1s).empty());
}

TEST_CASE("a signal that ends the reader of a pipe too is one signal", "[signals]") {
  const TempFolder folder;
  // The rank saves after its output has lost its reader, and well after the signal.
  const std::string rank =
      "trap 'sleep 0.4; echo one; sleep 0.2; echo two; sleep 0.2; touch saved; exit 3' TERM; "
      "echo up; while :; do sleep 0.05; done";
  const RunResult result =
      run({.args = {"bash", "-c",
                    "mkfifo pipe; " + build_path("hvdrun") + " -np 1 bash -c \"" + rank +
                        "\" >pipe & job=$!; "
                        "{ read -r line; kill -TERM $job; } <pipe; wait $job"},
           .cwd = folder.path()});
  INFO(result.err);
  CHECK(result.exit_code == 143);
  CHECK(std::filesystem::exists(folder.path() + "/saved"));
}

TEST_CASE("signals that were blocked by whoever started hvdrun do not stop it", "[signals]") {
  const RunResult result =
      run({.args = {"python3", "-c",
                    "import os, signal, sys\n"
                    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})\n"
                    "os.execv(sys.argv[1], sys.argv[1:])\n",
                    build_path("hvdrun"), "-np", "2", "echo", "text"},
           .limit = 20s});
  CHECK(result.exit_code == 0);
  for (const char* line : {"[0]<stdout>:text\n", "[1]<stdout>:text\n"})
    CHECK(result.out.find(line) != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
