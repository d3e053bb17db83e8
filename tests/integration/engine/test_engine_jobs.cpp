// The engine in real jobs: orders of submission, what is sent while nothing changes, stalls, the
// timeline.
#include <fstream>
#include <regex>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

RunResult probe(const std::vector<std::string>& options, const std::vector<std::string>& mode) {
  // Agents of several hosts, all on this machine.
  std::vector<std::string> args{"--transport", "local", "-np", "3"};
  args.insert(args.end(), options.begin(), options.end());
  args.push_back(build_path("tests/integration/programs/engine_probe"));
  args.insert(args.end(), mode.begin(), mode.end());
  return hvdrun(args);
}

// The words of check_timeline.py on a file whose rows have no phases that overlap.
std::string rows_of_timeline(const std::string& file) {
  const RunResult checked =
      run({.args = {"/usr/bin/python3", source_path("tests/integration/programs/check_timeline.py"),
                    file}});
  INFO(checked.out << checked.err);
  REQUIRE(checked.exit_code == 0);
  return checked.out;
}

const std::vector<std::string> kOneHost{"-H", "localhost:3"};
const std::vector<std::string> kTwoHosts{"-H", "a:2,b:1"};

TEST_CASE("ranks with orders of their own negotiate nothing once they know each other",
          "[engine]") {
  const auto hosts = GENERATE(kOneHost, kTwoHosts);
  const RunResult result = probe(hosts, {"order", "100"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(times_in(result.out, "negotiations 0, operations 2500") == 3);
}

TEST_CASE("on one host the same steps again send nothing at all", "[engine]") {
  if (is_sanitized()) {
    WARN("left out: what a sanitizer does when it is traced is not ours");
    return;
  }
  const TempFolder folder;
  // Each rank into a file of its own: reads and writes of any kind, of all its threads.
  const RunResult result =
      hvdrun({"-np", "3", "-H", "localhost:3", "sh", "-c",
              "exec strace -f -o " + folder.path() +
                  "/$HVD_RANK -e trace=network,read,write,readv,writev,pread64,pwrite64 " +
                  build_path("tests/integration/programs/engine_probe") + " order 100"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(times_in(result.out, "negotiations 0, operations 2500") == 3);
  for (const std::string rank : {"0", "1", "2"}) {
    std::ifstream file(folder.path() + "/" + rank);
    std::string line;
    std::string calls;
    bool within = false;
    int marks = 0;
    while (std::getline(file, line)) {
      const bool begin = line.find("\"steps begin\"") != line.npos;
      const bool end = line.find("\"steps end\"") != line.npos;
      marks += begin || end ? 1 : 0;
      if (begin) calls.clear();  // of the last such steps
      if (begin || end)
        within = begin;
      else if (within)
        calls += line + "\n";
    }
    CHECK(marks >= 2);
    CHECK(marks % 2 == 0);
    CHECK(calls.empty());
  }
}

TEST_CASE("ranks with other numbers of batches join, process sets work", "[engine]") {
  const auto hosts = GENERATE(kOneHost, kTwoHosts);
  const std::string mode = GENERATE("join", "sets");
  const RunResult result = probe(hosts, {mode});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(times_in(result.out, mode) == 3);
}

TEST_CASE("tensors that not all ranks submit are named, and end the job", "[engine][stall]") {
  const auto hosts = GENERATE(kOneHost, kTwoHosts);
  std::vector<std::string> options = hosts;
  options.insert(options.end(), {"--stall-check-warning-time-seconds", "1",
                                 "--stall-check-shutdown-time-seconds", "2"});
  const RunResult result = probe(options, {"late"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 82);
  CHECK(result.time < std::chrono::seconds(15));
  CHECK(std::regex_search(result.err,
                          std::regex("tensor '(grad.7|other)' waits since [1-2] s for rank ")));
  CHECK(std::regex_search(result.err, std::regex("last submitted '(grad.7|other)'")));
}

TEST_CASE("a stall blames neither ranks outside a process set nor those that have joined",
          "[engine][stall]") {
  const auto hosts = GENERATE(kOneHost, kTwoHosts);
  std::vector<std::string> options = hosts;
  options.insert(options.end(), {"--stall-check-warning-time-seconds", "1",
                                 "--stall-check-shutdown-time-seconds", "2"});
  const bool of_set = GENERATE(true, false);
  const RunResult result = probe(options, {of_set ? "late-set" : "late-joined"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 82);
  if (of_set) {
    CHECK(std::regex_search(
        result.err,
        std::regex(
            "tensor '?grad.7 in process set 'ends' \\(ranks 0, 2\\)'? waits since [1-2] s for "
            "rank 2; submitted by rank 0\\n")));
    // The set's, which came after the one of all ranks.
    CHECK(std::regex_search(result.err, std::regex("rank 2 on .*last submitted 'of the set'")));
  } else {
    CHECK(std::regex_search(result.err,
                            std::regex("tensor 'grad.7' waits since [1-2] s for rank 2; submitted "
                                       "by rank 1; rank 0 has joined\\n")));
  }
  CHECK_THAT(result.err, !Catch::Contains("  rank 1 on"));
  CHECK(std::regex_search(result.err, std::regex("had waited \\d+ s for rank 2 on \\w+\n")));
}

TEST_CASE("the engine tells the timeline", "[engine][timeline]") {
  const auto hosts = GENERATE(kOneHost, kTwoHosts);
  const bool by_program = GENERATE(false, true);
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  std::vector<std::string> options = hosts;
  options.insert(options.end(), {"--timeline-filename", by_program ? "DYNAMIC" : file});
  const RunResult result =
      by_program ? probe(options, {"timeline", file}) : probe(options, {"order", "5"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const std::string rows = rows_of_timeline(file);
  for (const std::string rank : {"0", "1", "2"}) {
    for (const std::string phase :
         {"QUEUE", "MEMCPY_IN_FUSION_BUFFER", "ALLREDUCE", "NEGOTIATE_ALLREDUCE"})
      CHECK_THAT(rows, Catch::Contains("\n" + rank + " gradient/3 " + phase + " "));
    if (by_program) CHECK_THAT(rows, Catch::Contains("\n" + rank + " direct ALLREDUCE 1\n"));
  }
}

TEST_CASE("the timeline tells process sets apart", "[engine][timeline]") {
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  const RunResult result =
      probe({"-H", "localhost:3", "--timeline-filename", file}, {"set-timeline"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const std::string rows = rows_of_timeline(file);
  for (const std::string lane :
       {"0 grad.7 in 'ends'", "2 grad.7 in 'ends'", "0 grad.7 in set 2", "1 grad.7 in set 2"})
    CHECK_THAT(rows, Catch::Contains("\n" + lane + " ALLREDUCE 20\n"));
  CHECK_THAT(rows, !Catch::Contains(" grad.7 ALLREDUCE"));
}

TEST_CASE("a rank without memory for an operation fails it on all ranks", "[engine]") {
  if (!takes_turn(2)) return;
  if (is_sanitized()) {
    WARN("left out: with a sanitizer an allocation that fails ends the process");
    return;
  }
  const auto hosts = GENERATE(kOneHost, kTwoHosts);
  const std::string how = GENERATE("called", "submitted", "joined");
  CAPTURE(how);
  const RunResult result = probe(hosts, {"memory", how});
  INFO(result.out << result.err);
  CHECK(times_in(result.out, "after a moment: ") == 3);
  CHECK(times_in(result.out, "it has failed within one rank: std::bad_alloc") == 3);
}

TEST_CASE("a job that has nothing to do does nothing", "[engine]") {
  if (is_sanitized()) {
    WARN("left out: the thread sanitizer has a thread of its own that wakes up");
    return;
  }
  const RunResult result = probe(kTwoHosts, {"idle", "2"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  // One switch is the sleep's own; leases are renewed by agents, not by ranks.
  const std::regex idle("idle: 0\\.000\\d* s of CPU, [0-3] switches");
  CHECK(std::distance(std::sregex_iterator(result.out.begin(), result.out.end(), idle), {}) == 3);
}

TEST_CASE("a rank that comes when the others' time is over is told so", "[engine]") {
  if (!takes_turn(2)) return;
  struct Late {
    std::vector<std::string> hosts;
    std::string kind;
  };
  // Each takes six seconds.
  const auto [hosts, kind] =
      GENERATE(Late{kOneHost, "broadcast"}, Late{kOneHost, "set"}, Late{kTwoHosts, "allreduce"},
               Late{kTwoHosts, "barrier"}, Late{kTwoHosts, "set"});
  CAPTURE(hosts, kind);
  std::vector<std::string> args{"-x", "HVD_COLLECTIVE_TIMEOUT=2"};
  args.insert(args.end(), hosts.begin(), hosts.end());
  const RunResult result = probe(args, {"too-late", kind});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const std::size_t ranks = kind == "set" ? 2 : 3;
  CHECK(times_in(result.out, "too late: ") == ranks);
  CHECK(times_in(result.out, "waited 2 s for rank 2") == ranks);
  CHECK(times_in(result.out, "no error") == 3 - ranks);
}

TEST_CASE("a rank that gives up in the midst of a message is heard on other hosts", "[engine]") {
  if (!takes_turn(2)) return;
  const std::string kind = GENERATE("allreduce", "allgather", "broadcast");
  CAPTURE(kind);
  const RunResult result = probe({"-H", "a:1,b:1,c:1"}, {"midway", kind});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(times_in(result.out, "after a moment: 'big': ") == 3);
  CHECK(times_in(result.out, "waited 2 s for rank 1") == 3);
  CHECK(times_in(result.out, "rank 0 gave up: ") == 2);
}

}  // namespace
}  // namespace hvdrun::test
