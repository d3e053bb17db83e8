// Elastic jobs: ranks are lost, the others go on in their processes, the lost ones come back.
#include <algorithm>
#include <array>
#include <filesystem>
#include <random>
#include <regex>
#include <set>
#include <signal.h>
#include <thread>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"
#include "tests/soak.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

const std::string& probe() {
  static const std::string path = build_path("tests/integration/programs/elastic_probe");
  return path;
}

// The probe's state after a step is the step's number on every rank, whatever was lost before.
void check_steps(const std::string& out, int steps) {
  const std::regex line("step (\\d+) rank (\\d+) of (\\d+): ([0-9.]+)");
  std::set<int> seen;
  for (auto it = std::sregex_iterator(out.begin(), out.end(), line); it != std::sregex_iterator();
       ++it) {
    seen.insert(std::stoi((*it)[1]));
    CHECK((*it)[1] == (*it)[4]);
    CHECK(std::stoi((*it)[2]) < std::stoi((*it)[3]));
  }
  CHECK(seen.size() == static_cast<std::size_t>(steps));
}

TEST_CASE("a rank that fails is started again, and the others go on meanwhile", "[elastic]") {
  const auto [fault, words] = GENERATE(
      table<std::string, std::string>({{"kill", "was killed by signal 9 (SIGKILL)"},
                                       {"exit3", "exited with code 3"},
                                       {"exit0", "exited with code 0 without hvd::shutdown()"}}));
  const std::string slot = GENERATE("0", "2");
  CAPTURE(fault, slot);
  const auto marker = fresh_marker();
  const RunResult job = hvdrun({"-np", "4", "--min-np", "3", probe(), "8", "100", fault, slot, "3"},
                               {.env = {marker}});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.err, Contains("rank " + slot + " " + words + "; it is started again"));
  check_steps(job.out, 8);
  CHECK(times_in(job.out, "done: ") == 4);
  CHECK(times_in(job.out, "done: rank 0 of 4 has 8") == 1);
  CHECK(processes_with(marker.first + "=" + marker.second).empty());
}

TEST_CASE("a rank that only seems to live on is lost", "[elastic]") {
  SECTION("as it runs another program") {
    const RunResult job =
        hvdrun({"-np", "3", "--min-np", "2", probe(), "60", "50", "exec", "1", "3"});
    CAPTURE(job.out, job.err);
    CHECK(job.exit_code == 0);
    CHECK_THAT(job.err, Contains("was a rank and runs another program now (exec); it is killed"));
    CHECK_THAT(job.err, Contains("rank 1 was killed by signal 9 (SIGKILL); it is started again"));
    check_steps(job.out, 60);
  }
  SECTION("as a child of it has its connections") {
    const RunResult job =
        hvdrun({"-np", "3", "--min-np", "2", probe(), "8", "50", "fork", "1", "3"});
    CAPTURE(job.out, job.err);
    CHECK(job.exit_code == 0);
    CHECK_THAT(job.err, Contains("rank 1 exited with code 3; it is started again"));
    check_steps(job.out, 8);
  }
}

// Over the fake driver, whose context has a fault when it is waited for.
TEST_CASE("a survivor whose GPU has failed is started again, too", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "1", "sh", "-c",
              "[ $HVD_RANK.$HVD_START = 1.0 ] && export HVD_FAKE_CONTEXT_RESULT=700; exec \"$@\"",
              "sh", probe(), "12", "100", "kill", "2", "3"},
             {.env = {{"LD_LIBRARY_PATH", build_path("tests/unit/worker/hvd/gpu/as_found")}}});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.err, Contains("rank 2 was killed by signal 9 (SIGKILL); it is started again"));
  const std::string why =
      "GPU 1 (Fake) is of no use to this process any more: cuCtxSynchronize: FAKE_ERROR (a fault "
      "of the fake)";
  CHECK_THAT(job.err, Contains("[1]<stderr>:hvd: rank 1: " + why + "\n"));
  CHECK_THAT(job.err, Contains("rank 1 exited with code 84 (" + why + "); it is started again"));
  check_steps(job.out, 12);
  CHECK(times_in(job.out, "done: ") == 3);
}

TEST_CASE("a new process of another program is left out, and harms nobody", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "2", probe(), "60", "60", "other", "1", "3"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(
      job.err,
      Contains("the new process of slot 1 is ended, as it runs another program: its state is 0 "
               "samplers, step of 4 bytes, stranger of 4 bytes, value of 8000 bytes, that of the "
               "ranks 0 samplers, step of 4 bytes, value of 8000 bytes"));
  // The others meet for the loss only.
  CHECK(times_in(job.out, "meeting 1 at step") == 2);
  CHECK(times_in(job.out, "meeting 2 at step") == 0);
  CHECK_THAT(job.err, Contains("it is not started again, as that was 3 times within 10 minutes"));
  check_steps(job.out, 60);
}

TEST_CASE("a collective of a new process before elastic::run is named", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "2", probe(), "60", "60", "early", "1", "3"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.err, Contains("rank 1 is new in a running job, and has called a collective before "
                               "hvd::elastic::run(): nobody answers it"));
  CHECK_THAT(job.err, Contains("it is not started again, as that was 3 times within 10 minutes"));
  check_steps(job.out, 60);
}

// A state so large that the others wait for it. The probe fills and compares it value by value,
// which takes seconds a step where a sanitizer watches.
std::string large_state() { return is_sanitized() ? "4000000" : "50000000"; }

// Its work between hvd::init() and elastic::run() is done beside theirs.
TEST_CASE("nobody waits for a new process before elastic::run", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "2", probe(), "80", "50", "slow", "1", "3"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  // In its two seconds the others go on.
  CHECK(times_in(job.out, " of 2: ") > 2 * 20);
  CHECK(times_in(job.out, "new: rank 1 of 3 on GPU -1\n") == 1);
  check_steps(job.out, 80);
  CHECK(times_in(job.out, "done: ") == 3);
}

TEST_CASE("a new process counts nothing until it has the state", "[elastic]") {
  // So small that it is there at once, and too large for that.
  const std::string bytes = GENERATE(as<std::string>(), "1", large_state());
  const std::string hosts = GENERATE("h:4", "a:2,b:2");
  const RunResult job = hvdrun({"-np", "4", "--min-np", "3", "--transport", "local", "-H", hosts,
                                probe(), "60", "50", "kill", "2", "3"},
                               {.env = {{"PROBE_OVERLAP", bytes}}});
  CAPTURE(bytes, hosts, job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK(times_in(job.out, "counts nothing in step ") == 1);
  CHECK_THAT(job.out, !Contains("another state"));
  check_steps(job.out, 60);
  CHECK(times_in(job.out, "of 4 has 60") == 4);
}

TEST_CASE("a state that is lost with those who had it does not begin anew", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "1", probe(), "500", "20", "desert", "2", "3"},
             {.env = {{"PROBE_OVERLAP", large_state()}}});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code != 0);
  CHECK(times_in(job.out, "step 1 rank ") == 3);
  CHECK_THAT(job.err, Contains("elastic::run: all ranks that had the state are lost; rank "));
  CHECK(times_in(job.out, "meeting 0 at step 0: ") == 3);
}

// The use of one process is the same after many losses as after a few.
TEST_CASE("a process that has survived many losses has grown by nothing", "[elastic]") {
  const std::size_t ranks = std::max<std::size_t>(8, soak_count(68));  // 201 losses; 21 at least
  const RunResult job = hvdrun({"-np", std::to_string(ranks), "--min-np", "1",
                                build_path("tests/integration/programs/elastic_losses"), "2"},
                               {.limit = 600s});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK(times_in(job.err, "was killed by signal 9") == 3 * (ranks - 1));
  CHECK(times_in(job.out, "done: alone") == 1);
  const std::regex line(
      "meeting \\d+: (\\d+) descriptors, (\\d+) threads, (\\d+) mappings, (\\d+) KiB");
  std::vector<std::array<long, 4>> uses;
  for (auto it = std::sregex_iterator(job.out.begin(), job.out.end(), line);
       it != std::sregex_iterator(); ++it)
    uses.push_back(
        {std::stol((*it)[1]), std::stol((*it)[2]), std::stol((*it)[3]), std::stol((*it)[4])});
  REQUIRE(uses.size() > 2 * ranks);
  // The first meetings load what later ones have.
  const std::size_t warm = uses.size() / 4;
  const auto most = [&](std::size_t what, std::size_t from, std::size_t end) {
    long found = 0;
    for (std::size_t i = from; i < end; ++i) found = std::max(found, uses[i][what]);
    return found;
  };
  const auto grown = [&](std::size_t what) {
    return most(what, uses.size() - warm, uses.size()) - most(what, 0, warm);
  };
  CHECK(grown(0) <= 0);
  CHECK(grown(1) <= 0);
  // A sanitizer keeps memory that has been given back.
  if (is_sanitized()) return;
  CHECK(grown(2) <= 0);
  CHECK(grown(3) <= 512);
}

TEST_CASE("each process of a slot has files of its own", "[elastic]") {
  const auto folder = std::filesystem::temp_directory_path() / ("elastic-" + fresh_marker().second);
  const RunResult job = hvdrun({"-np", "2", "--min-np", "1", "--output-filename", folder.string(),
                                probe(), "8", "50", "kill", "1", "3"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK(times_in(contents(folder / "rank.1/stdout"), "meeting 0 at step 0") == 1);
  CHECK(times_in(contents(folder / "rank.1.1/stdout"), "done: ") == 1);
  std::filesystem::remove_all(folder);
}

TEST_CASE("ranks of several hosts go on as those of one", "[elastic]") {
  const std::string slot = GENERATE("0", "1", "3");
  const std::string step = GENERATE("0", "4");
  CAPTURE(slot, step);
  const RunResult job = hvdrun({"--transport", "local", "-H", "a:2,b:2", "-np", "4", "--min-np",
                                "2", probe(), "10", "60", "kill", slot, step});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  check_steps(job.out, 10);
  CHECK(times_in(job.out, "done: ") == 4);
}

TEST_CASE("two ranks that are lost at once are one new epoch", "[elastic]") {
  Background job(
      {.args = {build_path("hvdrun"), "-np", "4", "--min-np", "2", probe(), "30", "40"}});
  job.wait_for_output("step 3 rank 0", 20s);
  std::vector<pid_t> ranks;
  for (const ProcessInfo& info : all_processes())
    if (info.cmdline.find("elastic_probe 30 40") != std::string::npos &&
        info.name == "elastic_probe")
      ranks.push_back(info.pid);
  REQUIRE(ranks.size() == 4);
  std::sort(ranks.begin(), ranks.end());
  ::kill(ranks[1], SIGKILL);
  ::kill(ranks[2], SIGKILL);
  CHECK(job.wait(30s) == 0);
  CAPTURE(job.output());
  check_steps(job.output(), 30);
  // A new process may have come before the others had met.
  const auto epoch = job.output().find("epoch 2: the job goes on with ");
  REQUIRE(epoch != std::string::npos);
  for (const std::string lost : {"rank 1", "rank 2"})
    CHECK(std::min(job.output().find(lost + " was killed"), job.output().find(lost + " has died")) <
          epoch);
  CHECK(times_in(job.output(), "done: ") == 4);
}

TEST_CASE("the job waits for --min-np ranks", "[elastic]") {
  SECTION("and goes on with the new process") {
    const RunResult job =
        hvdrun({"-np", "3", "--min-np", "3", probe(), "6", "30", "kill", "1", "2"});
    CAPTURE(job.out, job.err);
    CHECK(job.exit_code == 0);
    CHECK_THAT(job.err, Contains("epoch 2: the job goes on with 3 ranks"));
    CHECK_THAT(job.err, !Contains("2 ranks"));
    check_steps(job.out, 6);
  }
  SECTION("until its slot has failed too often") {
    const RunResult job =
        hvdrun({"-np", "3", "--min-np", "3", probe(), "6", "30", "always", "1", "2"});
    CAPTURE(job.out, job.err);
    CHECK(job.exit_code == 83);
    CHECK_THAT(job.err, Contains("it is not started again, as that was 3 times within 10 minutes"));
    CHECK_THAT(job.err,
               Contains("there are 2 ranks of the 3 that --min-np asks for: nobody is left "
                        "who could come; the job was ended"));
  }
}

TEST_CASE("a slot that fails too often is left out, and the others end well", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "1", probe(), "60", "60", "always", "1", "2"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  check_steps(job.out, 60);
}

TEST_CASE("a rank that is stopped is killed when its time is over", "[elastic]") {
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "2", "--stall-check-warning-time-seconds", "1",
              "--stall-check-shutdown-time-seconds", "2", probe(), "6", "30", "stop", "1", "2"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.err, Contains("rank 1 was killed by signal 9 (SIGKILL); it is started again"));
  check_steps(job.out, 6);
}

// Those who wait for a stopped rank, in an operation of which the lost one has done its part, come
// all the same.
TEST_CASE("a rank that is stopped holds nobody up when another is lost", "[elastic]") {
  Background job({.args = {build_path("hvdrun"), "--transport", "local", "-H", "a:2,b:2", "-np",
                           "4", "--min-np", "2", "--stall-check-warning-time-seconds", "1",
                           "--stall-check-shutdown-time-seconds", "2", probe(), "60", "41"}});
  job.wait_for_output("step 3 rank 0", 20s);
  std::vector<pid_t> ranks;
  for (const ProcessInfo& info : all_processes())
    if (info.cmdline.find("elastic_probe 60 41") != std::string::npos &&
        info.name == "elastic_probe")
      ranks.push_back(info.pid);
  REQUIRE(ranks.size() == 4);
  std::sort(ranks.begin(), ranks.end());
  ::kill(ranks[3], SIGSTOP);
  std::this_thread::sleep_for(100ms);  // the others wait for it
  ::kill(ranks[1], SIGKILL);
  CHECK(job.wait(40s) == 0);
  CAPTURE(job.output());
  CHECK(times_in(job.output(), "is killed") <= 2);  // the word on it, and what it was doing
  CHECK(times_in(job.output(), "was killed by signal 9") == 2);
  check_steps(job.output(), 60);
}

TEST_CASE("a loss ends the job as ever", "[elastic]") {
  SECTION("without --min-np") {
    const RunResult job = hvdrun({"-np", "3", probe(), "6", "30", "kill", "1", "2"});
    CHECK(job.exit_code == 137);
    CHECK_THAT(job.err, Contains("rank 1 on localhost"));
  }
  SECTION("before all ranks are in elastic::run, with a word about that") {
    const RunResult job = hvdrun({"-np", "3", "--min-np", "2", "sh", "-c",
                                  "if [ $HVD_RANK = 1 ]; then kill -9 $$; fi; sleep 20"});
    CHECK(job.exit_code == 137);
    CHECK_THAT(job.err, Contains("could have gone on if all ranks had been in hvd::elastic::run"));
  }
  SECTION("where it was the last rank") {
    const RunResult job =
        hvdrun({"-np", "1", "--min-np", "1", probe(), "6", "30", "kill", "0", "2"});
    CAPTURE(job.err);
    CHECK(job.exit_code == 137);
    CHECK_THAT(job.err, !Contains("started again"));
  }
}

TEST_CASE("a program may say goodbye and come again", "[elastic]") {
  const RunResult job = hvdrun({"-np", "3", "--min-np", "2", probe(), "3", "0", "again"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK(times_in(job.out, "again: rank") == 3);
  CHECK(times_in(job.out, "done: ") == 3);
}

// The process of the slot, by HVD_RANK in its environment; 0: there is none.
pid_t process_of(const std::string& tag, const std::string& slot) {
  for (const ProcessInfo& info : processes_with(tag))
    if (info.name == "elastic_probe" &&
        info.environ.find('\0' + ("HVD_RANK=" + slot) + '\0') != std::string::npos)
      return info.pid;
  return 0;
}

TEST_CASE("losses at random moments lose nothing, while one rank stays", "[elastic][soak]") {
  std::mt19937_64 random(soak_seed("losses at random moments"));
  const std::size_t count = std::max<std::size_t>(soak_count(60), 1);
  for (std::size_t trial = 0; trial < count; ++trial) {
    const auto marker = fresh_marker();
    const std::string tag = marker.first + "=" + marker.second;
    std::vector<std::string> args = {build_path("hvdrun"), "-np", "4", "--min-np", "1"};
    if (trial % 2 == 1) args.insert(args.end(), {"--transport", "local", "-H", "a:2,b:2"});
    args.insert(args.end(), {probe(), "60", "20"});
    const std::string bytes = random() % 2 == 0 ? "0" : "100000";
    Background job({.args = args, .env = {marker, {"PROBE_OVERLAP", bytes}}});
    job.wait_for_output("step 2 rank 0", 20s);
    // Twice at most each: the third time a slot is left out.
    std::vector<std::string> victims = {"1", "1", "2", "2", "3", "3"};
    std::shuffle(victims.begin(), victims.end(), random);
    for (const std::string& slot : victims) {
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 120));
      if (const pid_t pid = process_of(tag, slot); pid > 0) ::kill(pid, SIGKILL);
    }
    const int code = job.wait(60s);
    CAPTURE(trial, job.output());
    CHECK(code == 0);
    check_steps(job.output(), 60);
    CHECK_THAT(job.output(), !Contains("another state"));
    CHECK(times_in(job.output(), "done: rank 0 of") == 1);
    CHECK(wait_until_gone(tag, 1s).empty());
  }
}

TEST_CASE("what a lost rank has started goes with it", "[elastic]") {
  const auto marker = fresh_marker();
  // The child holds the rank's pipes and its line's descriptors.
  const std::string program =
      "[ $HVD_RANK$HVD_START = 10 ] && (sleep 300 &); exec " + probe() + " 8 100 kill 1 3";
  const RunResult job =
      hvdrun({"-np", "3", "--min-np", "2", "sh", "-c", program}, {.env = {marker}});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  check_steps(job.out, 8);
  CHECK(wait_until_gone(marker.first + "=" + marker.second, 1s).empty());
}

TEST_CASE("tags and events have the ranks of the moment", "[elastic]") {
  const auto folder = std::filesystem::temp_directory_path() / ("elastic-" + fresh_marker().second);
  std::filesystem::create_directories(folder);
  const std::string events = folder / "events";
  const RunResult job = hvdrun(
      {"-np", "3", "--min-np", "2", "--events", events, probe(), "8", "100", "kill", "0", "3"});
  CAPTURE(job.out, job.err);
  CHECK(job.exit_code == 0);
  CHECK_THAT(job.out, Contains("[0]<stdout>:step 8 rank 0 of 3"));
  CHECK_THAT(job.out, Contains("[1]<stdout>:step 8 rank 1 of 3"));
  CHECK_THAT(job.out, Contains("[2]<stdout>:step 8 rank 2 of 3"));
  const std::string told = contents(events);
  // The new process may have come before the others had met.
  CHECK_THAT(told, Contains(R"("event":"epoch","epoch":2,"size":2,"slots":[1,2])") ||
                       Contains(R"("event":"epoch","epoch":2,"size":3,"slots":[1,2,0])"));
  CHECK_THAT(told, Contains(R"("size":3,"slots":[1,2,0])"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace hvdrun::test
