// Any process of a job is killed in any phase of it, at a random moment: a second later nothing of
// the job is alive, and nothing else is left. Survivors are counted from outside, over all of
// /proc.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <signal.h>
#include <thread>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

// A sanitizer's own handler of SIGSEGV may meet a lock that the interrupted code holds (at a start
// mostly) and then spins for ever: the rank is alive, and nobody has died.
std::pair<std::string, std::string> without_handler(const char* options) {
  const char* given = std::getenv(options);
  return {options, (given != nullptr ? given + std::string(":") : "") + "handle_segv=0"};
}

struct Phase {
  const char* name;
  const char* mode;    // of worker_probe
  const char* signal;  // the output that says that the phase has begun; nullptr: at once
};

constexpr Phase kPhases[] = {
    {"start", "collectives", nullptr},
    {"before init", "before-init", "before init"},
    {"in a collective", "loop", "looping"},
    {"at the end", "linger", "shut down"},
};
constexpr const char* kVictims[] = {"hvdrun", "hvd-coordinator", "hvd-guard", "hvd-agent",
                                    "worker_probe"};

// The outcome of one trial.
struct Outcome {
  bool killed = false;  // the victim was there when we looked
  std::vector<ProcessInfo> left;
  std::vector<std::string> files;  // left in the job's temporary folders
  int exit_code = -1;
  std::chrono::milliseconds gone_after{};
};

// "NAME PID" of the processes and the paths of the files, for a message.
std::string names_of(const Outcome& outcome) {
  std::string names;
  for (const auto& info : outcome.left) names += " " + info.name + " " + std::to_string(info.pid);
  for (const auto& file : outcome.files) names += " " + file;
  return names.empty() ? " nothing" : names;
}

std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (!entry.is_directory()) files.push_back(entry.path());
  return files;
}

// Abstract sockets that carry the job's id.
std::size_t sockets_of(const std::string& job_id) {
  std::ifstream table("/proc/net/unix");
  std::size_t count = 0;
  for (std::string line; std::getline(table, line);)
    if (line.find(job_id) != std::string::npos) ++count;
  return count;
}

Outcome kill_once(const std::string& victim, const Phase& phase, int signal,
                  std::chrono::microseconds delay, const std::string& control, int np) {
  const auto marker = fresh_marker();
  const std::string tag = marker.first + "=" + marker.second;
  const TempFolder home;
  Outcome outcome;
  // Each rank has a child in a session of its own besides.
  const std::string program = "setsid sleep 300 & exec " + worker_probe() + " " + phase.mode;
  Background job({.args = {build_path("hvdrun"), "--control", control, "--grace", "0.3", "-np",
                           std::to_string(np), "sh", "-c", program},
                  .env = {marker,
                          {"HOME", home.path()},
                          {"TMPDIR", home.path()},
                          {"XDG_RUNTIME_DIR", home.path()},
                          without_handler("ASAN_OPTIONS"),
                          without_handler("TSAN_OPTIONS")}});
  if (phase.signal != nullptr) job.wait_for_output(phase.signal, 20s);
  std::this_thread::sleep_for(delay);
  std::string job_id;
  const auto deadline = std::chrono::steady_clock::now() + 2s;
  while (!outcome.killed && std::chrono::steady_clock::now() < deadline) {
    const auto found = processes_with(tag);
    for (const auto& info : found) {
      const auto at = info.environ.find("HVD_JOB_ID=");
      if (at != std::string::npos) job_id = info.environ.substr(at + 11, 32);
      if (info.name != victim || outcome.killed) continue;
      outcome.killed = kill(info.pid, signal) == 0;
    }
    if (found.empty()) break;  // the job is over
  }
  const auto begin = std::chrono::steady_clock::now();
  outcome.exit_code = job.wait(10s);
  const auto ended = std::chrono::steady_clock::now();
  outcome.left = wait_until_gone(tag, 1000ms);
  // A process that exits gives back its memory, and with it the environment by which we know it,
  // before it closes its descriptors: under a sanitizer tens of milliseconds lie between.
  for (;; std::this_thread::sleep_for(2ms)) {
    outcome.files = files_below(home.path());
    if (!job_id.empty() && sockets_of(job_id) > 0) outcome.files.push_back("socket of " + job_id);
    if (outcome.files.empty() || std::chrono::steady_clock::now() > ended + 1s) break;
  }
  outcome.gone_after = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  return outcome;
}

TEST_CASE("killed at random moments, nothing survives", "[soak][kill]") {
  std::mt19937_64 random(soak_seed("killed at random moments"));
  struct Cell {
    const char* victim;
    const Phase* phase;
  };
  std::vector<Cell> cells;
  for (const char* victim : kVictims)
    for (const Phase& phase : kPhases) cells.push_back({victim, &phase});
  const auto shm_before = files_below("/dev/shm");
  std::map<std::pair<std::string, std::string>, int> table;
  std::chrono::milliseconds slowest{};
  // Cells in turn, so that none stays empty; a victim that had gone already does not count.
  const std::size_t count = std::max(soak_count(300), cells.size());
  for (std::size_t i = 0, tries = 0; i < count && tries < 4 * count; ++tries) {
    const Cell& cell = cells[i % cells.size()];
    const int signals[] = {SIGKILL, SIGKILL, SIGKILL, SIGTERM, SIGSEGV};
    const int signal = signals[random() % std::size(signals)];
    const auto delay = std::chrono::microseconds(random() % 5000);
    const std::string control = random() % 4 == 0 ? "tcp" : "unix";
    const int np = static_cast<int>(1 + random() % 4);
    const Outcome outcome = kill_once(cell.victim, *cell.phase, signal, delay, control, np);
    INFO(cell.victim << " " << cell.phase->name << " signal " << signal << " after "
                     << delay.count() << " us, " << control << ", np " << np << ", exit code "
                     << outcome.exit_code << ", left:" << names_of(outcome));
    CHECK(outcome.left.empty());
    CHECK(outcome.files.empty());
    CHECK(outcome.exit_code != -1);
    slowest = std::max(slowest, outcome.gone_after);
    if (!outcome.killed) continue;
    ++table[{cell.victim, cell.phase->name}];
    ++i;
  }
  CHECK(files_below("/dev/shm") == shm_before);
  std::printf("%-18s", "victim");
  for (const Phase& phase : kPhases) std::printf("%16s", phase.name);
  for (const char* victim : kVictims) {
    std::printf("\n%-18s", victim);
    for (const Phase& phase : kPhases) {
      std::printf("%16d", table[{victim, phase.name}]);
      CHECK(table[{victim, phase.name}] > 0);
    }
  }
  std::printf("\nthe slowest end took %lld ms\n", static_cast<long long>(slowest.count()));
  std::fflush(stdout);
}

// As a batch system ends a step: the lease and the guard at nearly the same time, so that the guard
// is killed while it kills.
TEST_CASE("a guard that is killed while it ends its host leaves nothing", "[soak][kill]") {
  std::mt19937_64 random(soak_seed("guard killed while it ends its host"));
  const std::size_t count = std::max<std::size_t>(soak_count(200), 1);
  std::size_t together = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto marker = fresh_marker();
    const std::string tag = marker.first + "=" + marker.second;
    Background job({.args = {build_path("hvdrun"), "-np", "4", "sh", "-c",
                             "setsid sleep 300 & echo ready; trap '' TERM HUP; sleep 300"},
                    .env = {marker}});
    for (const char* rank : {"0", "1", "2", "3"})
      job.wait_for_output("[" + std::string(rank) + "]<stdout>:ready", 20s);
    pid_t hvdrun = 0;
    pid_t guard = 0;
    for (const auto& info : processes_with(tag)) {
      if (info.name == "hvdrun") hvdrun = info.pid;
      if (info.name == "hvd-guard") guard = info.pid;
    }
    REQUIRE(hvdrun > 0);
    REQUIRE(guard > 0);
    const auto delay = std::chrono::microseconds(random() % 3000);
    const auto at = std::chrono::steady_clock::now() + delay;
    ::kill(hvdrun, SIGKILL);
    while (std::chrono::steady_clock::now() < at) {
    }
    together += ::kill(guard, SIGKILL) == 0 ? 1 : 0;
    job.wait(10s);
    const auto left = wait_until_gone(tag, 3000ms);
    std::string names;
    for (const auto& info : left) names += " " + info.name + " " + std::to_string(info.pid);
    INFO(delay.count() << " us, left:" << names);
    CHECK(left.empty());
    for (const auto& info : left) ::kill(info.pid, SIGKILL);
  }
  std::printf("%zu of %zu guards were there to be killed\n", together, count);
  std::fflush(stdout);
}

}  // namespace
}  // namespace hvdrun::test
