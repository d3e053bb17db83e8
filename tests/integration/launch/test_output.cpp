#include <cstdio>
#include <map>
#include <numeric>
#include <sstream>
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("every line has rank and stream in front, on the stream it came from", "[output]") {
  const RunResult result =
      hvdrun({"-np", "3", "sh", "-c", "echo out $HVD_RANK; echo err $HVD_RANK >&2"});
  for (const char* rank : {"0", "1", "2"}) {
    const std::string r = rank;
    CHECK(result.out.find("[" + r + "]<stdout>:out " + r + "\n") != std::string::npos);
    CHECK(result.err.find("[" + r + "]<stderr>:err " + r + "\n") != std::string::npos);
  }
}

TEST_CASE("lines of many ranks are never torn, and none is lost", "[output]") {
  const RunResult result = hvdrun(
      {"-np", "8", "sh", "-c",
       "i=0; while [ $i -lt 2000 ]; do echo line $i of rank $HVD_RANK end; i=$((i+1)); done"});
  REQUIRE(result.exit_code == 0);
  std::istringstream lines(result.out);
  std::vector<int> next(8, 0);
  for (std::string line; std::getline(lines, line);) {
    int tag = 0;
    int number = 0;
    int rank = 0;
    int used = 0;
    REQUIRE(std::sscanf(line.c_str(), "[%d]<stdout>:line %d of rank %d end%n", &tag, &number, &rank,
                        &used) == 3);
    REQUIRE(used == static_cast<int>(line.size()));
    REQUIRE(tag == rank);
    REQUIRE(number == next[static_cast<std::size_t>(rank)]++);
  }
  CHECK(next == std::vector<int>(8, 2000));
}

TEST_CASE("lines are whole when both outputs are one pipe", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") +
                        " -np 4 sh -c 'seq -f \"out %g of $HVD_RANK end\" 20000 & "
                        "seq -f \"err %g of $HVD_RANK end\" 20000 >&2; wait' 2>&1"}});
  REQUIRE(result.exit_code == 0);
  std::istringstream lines(result.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    int tag = 0;
    int rank = 0;
    int used = 0;
    std::sscanf(line.c_str(), "[%d]<std%*3s>:%*3s %*d of %d end%n", &tag, &rank, &used);
    if (used != static_cast<int>(line.size()) || tag != rank) FAIL("torn: " << line);
  }
  CHECK(count == 160'000);
}

// Far more than the agent sends at once, and each of another length than the pipes.
TEST_CASE("long lines of many ranks are not torn, with tags and without", "[output]") {
  const std::string tag = GENERATE("on", "off");
  CAPTURE(tag);
  const RunResult result =
      hvdrun({"--tag-output", tag, "-np", "4", "sh", "-c",
              "for i in 1 2 3; do head -c 70${HVD_RANK}001 /dev/zero | tr '\\0' $HVD_RANK; echo; "
              "echo short $HVD_RANK; done"});
  REQUIRE(result.exit_code == 0);
  std::istringstream lines(result.out);
  std::map<std::string, int> seen;
  for (std::string line; std::getline(lines, line);) {
    const auto end_of_tag = tag == "on" ? line.find(':') + 1 : 0;
    const std::string text = line.substr(end_of_tag);
    if (text.starts_with("short ")) {
      ++seen[text];
      continue;
    }
    REQUIRE_FALSE(text.empty());
    const std::string rank = text.substr(0, 1);
    const bool whole = text == std::string(700'001 + 1'000 * (rank[0] - '0'), rank[0]);
    if (!whole) FAIL("torn: " << text.size() << " bytes from " << text.substr(0, 20));
    if (tag == "on") CHECK(line.starts_with("[" + rank + "]<stdout>:"));
    ++seen[rank];
  }
  for (const char* rank : {"0", "1", "2", "3"}) {
    CHECK(seen[rank] == 3);
    CHECK(seen["short " + std::string(rank)] == 3);
  }
}

// A line's rest waits behind the others' then, for longer than an unfinished one is held.
TEST_CASE("a reader that stops tears no long line either", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") +
                        " --tag-output off -np 4 sh -c 'for i in 1 2 3 4 5; do head -c 200000 "
                        "/dev/zero | tr \\0 $HVD_RANK; echo; done' | (sleep 3; cat)"}});
  std::istringstream lines(result.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    REQUIRE_FALSE(line.empty());
    const bool whole = line == std::string(200'000, line[0]);
    if (!whole) FAIL("torn: " << line.size() << " bytes from " << line.substr(0, 20));
  }
  CHECK(count == 20);
}

// The words of a rank before it waits for something are seen while it waits.
TEST_CASE("a line that is not finished is shown all the same", "[output]") {
  TempFolder folder;
  const std::string fifo = folder.path() + "/fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  Background job(
      {.args = {build_path("hvdrun"), "-np", "2", "sh", "-c",
                "[ $HVD_RANK = 0 ] || { printf loading...; read go < " + fifo + "; echo $go; }"}});
  job.wait_for_output("[1]<stdout>:loading...", 20s);
  REQUIRE(run({.args = {"sh", "-c", "echo done > " + fifo}}).exit_code == 0);
  job.wait_for_output("[1]<stdout>:loading...done\n", 20s);
  CHECK(job.wait(20s) == 0);
}

TEST_CASE("tags are off, a template, or after a timestamp", "[output]") {
  const std::vector<std::string> program = {"-np", "1", "echo", "hi"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), program.begin(), program.end());
    return hvdrun(options);
  };
  CHECK(with({"--tag-output", "off"}).out == "hi\n");
  CHECK(with({"--tag-output", "{host} {rank}.{local_rank} {stream}> "}).out ==
        "localhost 0.0 stdout> hi\n");
  const std::string timed = with({"--prefix-output-with-timestamp"}).out;
  int day = 0;
  int year = 0;
  int used = 0;
  std::sscanf(timed.c_str(), "%*3s %*3s %d %*d:%*d:%*d %d[0]<stdout>:hi%n", &day, &year, &used);
  CHECK(used == static_cast<int>(timed.size()) - 1);
  CHECK(day >= 1);
  CHECK(year >= 2024);
  const RunResult bad = with({"--tag-output", "{ranc}"});
  CHECK(bad.exit_code == 64);
  CHECK(bad.err.find("there is no {ranc}; the names are {rank}") != std::string::npos);
}

TEST_CASE("a progress bar keeps its tag and its carriage returns", "[output]") {
  const RunResult result = hvdrun({"-np", "1", "printf", "10%%\r20%%\rdone\n"});
  CHECK(result.out == "[0]<stdout>:10%\r[0]<stdout>:20%\r[0]<stdout>:done\n");
}

TEST_CASE("a terminal has colours unless NO_COLOR says no", "[output]") {
  const std::string command = build_path("hvdrun") + " -np 2 sh -c 'echo hi; echo no >&2'";
  const auto on_terminal = [&](const std::string& more) {
    return run({.args = {"script", "-qec", more + command, "/dev/null"},
                .env = {{"TERM", "xterm"}}})
        .out;
  };
  const std::string out = on_terminal("");
  CHECK(out.find("\x1b[36m[0]<stdout>:\x1b[0mhi\r\n") != std::string::npos);
  CHECK(out.find("\x1b[7;32m[1]<stderr>:\x1b[0mno\r\n") != std::string::npos);
  CHECK(on_terminal("NO_COLOR=1 ").find('\x1b') == std::string::npos);
  CHECK(hvdrun({"-np", "1", "echo", "hi"}).out == "[0]<stdout>:hi\n");
  CHECK(hvdrun({"--color", "always", "-np", "1", "echo", "hi"}).out ==
        "\x1b[36m[0]<stdout>:\x1b[0mhi\n");
}

// The ranks of "0-2,5".
std::vector<int> ranks_of(const std::string& ranges) {
  std::vector<int> ranks;
  std::istringstream parts(ranges);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto dash = part.find('-');
    const int last = std::stoi(part.substr(dash == std::string::npos ? 0 : dash + 1));
    for (int rank = std::stoi(part); rank <= last; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

// The number of lines that they fold into depends on how far apart they come.
TEST_CASE("equal lines of many ranks fold, and nobody's is lost", "[output]") {
  TempFolder folder;
  const RunResult result = hvdrun(
      {"--fold", "-np", "8", "sh", "-c",
       "touch " + folder.path() + "/$HVD_RANK; while [ $(ls " + folder.path() +
           " | wc -l) -lt 8 ]; do sleep 0.01; done; echo same; echo rank $HVD_RANK; echo last"});
  CHECK(result.exit_code == 0);
  std::map<std::string, std::vector<int>> ranks;
  std::map<std::string, int> lines;
  std::istringstream text(result.out);
  for (std::string line; std::getline(text, line);) {
    const auto colon = line.find("]<stdout>:");
    REQUIRE(colon != std::string::npos);
    const std::string rest = line.substr(colon + 10);
    ++lines[rest];
    for (const int rank : ranks_of(line.substr(1, colon - 1))) ranks[rest].push_back(rank);
  }
  std::vector<int> all(8);
  std::iota(all.begin(), all.end(), 0);
  for (const char* line : {"same", "last"}) {
    CHECK(lines[line] < 8);
    CHECK_THAT(ranks[line], Catch::UnorderedEquals(all));
  }
  for (const int rank : all) CHECK(ranks["rank " + std::to_string(rank)] == std::vector<int>{rank});
}

TEST_CASE("binary output arrives unchanged", "[output]") {
  TempFolder folder;
  const std::string file = folder.path() + "/bytes";
  REQUIRE(run({.args = {"sh", "-c", "head -c 1000000 /dev/urandom | tr -d '\\n\\r' > " + file}})
              .exit_code == 0);
  // One line without an end: one tag, then the bytes, and a line end for the display.
  const RunResult result = hvdrun({"-np", "1", "cat", file});
  const RunResult raw = hvdrun({"--tag-output", "off", "-np", "1", "cat", file});
  const RunResult plain = run({.args = {"cat", file}});
  REQUIRE(plain.out.size() > 900'000);
  // Not printed when they fail.
  const bool same = result.out == "[0]<stdout>:" + plain.out + "\n";
  CHECK(same);
  const bool raw_same = raw.out == plain.out;
  CHECK(raw_same);
}

// Silently, as other programs end.
TEST_CASE("a reader that goes away ends the job", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") + " -np 2 yes | head -n 2; echo ${PIPESTATUS[0]}"}});
  CHECK(result.out.find("<stdout>:y\n") != std::string::npos);
  CHECK(result.out.substr(result.out.size() - 4) == "141\n");
  CHECK(result.err.empty());
}

// The ranks are through by then: more than a pipe holds, and less than hvdrun takes besides.
TEST_CASE("a reader that goes away after the job has ended is told by the exit code", "[output]") {
  TempFolder folder;
  const std::string events = folder.path() + "/events";
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") + " --events " + events +
                        " -np 1 sh -c 'head -c 100000 /dev/zero | tr \\\\0 x' | (until grep -qs "
                        "job_ended " +
                        events + "; do sleep 0.01; done); echo ${PIPESTATUS[0]}"},
           .limit = 20s});
  CHECK(result.out == "141\n");
  CHECK(result.err.empty());
}

// Slower than any of our own time-outs after the end of the job: what was printed is not lost.
TEST_CASE("output waits for a slow reader", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") +
                        " -np 2 sh -c 'yes $HVD_RANK | head -n 500000' | (sleep 7; wc -l)"}});
  CHECK(result.out == "1000000\n");
}

TEST_CASE("a full disk under stdout is said, and the job goes on", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") + " -np 2 sh -c 'echo hi; sleep 0.1' > /dev/full"}});
  CHECK(result.exit_code == 74);
  CHECK(result.err == "hvdrun: stdout: No space left on device; output there ends here\n");
}

TEST_CASE("output for a stdout that is closed is lost, and said to be", "[output]") {
  const auto closed = [](const std::string& program) {
    return run({.args = {"bash", "-c", build_path("hvdrun") + " -np 2 " + program + " >&-"},
                .limit = 20s});
  };
  const RunResult result = closed("echo hi");
  CHECK(result.exit_code == 74);
  CHECK(result.err ==
        "hvdrun: stdout is closed: what the ranks write there is lost; write >/dev/null where that "
        "is meant\n");
  const RunResult nothing = closed("true");
  CHECK(nothing.exit_code == 0);
  CHECK(nothing.err.empty());
  // Words for stderr are not written to stdout, though nobody sees either.
  CHECK(closed("sh -c 'echo hi >&2' 2>/dev/null").exit_code == 0);
}

TEST_CASE("what hvdrun prints itself is not lost silently either", "[output]") {
  const std::string arguments =
      GENERATE("--help", "--version", "--check-build", "explain 137", "ps", "--dry-run -np 2 true");
  CAPTURE(arguments);
  const auto with = [&](const std::string& redirection) {
    return run({.args = {"bash", "-c", build_path("hvdrun") + " " + arguments + redirection}});
  };
  const RunResult full = with(" > /dev/full");
  CHECK(full.exit_code == 74);
  CHECK(full.err == "hvdrun: stdout: No space left on device\n");
  const RunResult closed = with(" >&-");
  CHECK(closed.exit_code == 74);
  CHECK(closed.err == "hvdrun: stdout: Bad file descriptor\n");
}

TEST_CASE("hvdrun runs without standard descriptors", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") + " -np 2 sh -c 'echo hi; cat; exit 3' "
                                           "<&- >&- 2>&-"},
           .limit = 20s});
  CHECK(result.exit_code == 3);
  CHECK(result.out.empty());
}

}  // namespace
}  // namespace hvdrun::test
