// --stdin: who reads what hvdrun gets.
#include <fcntl.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

TEST_CASE("stdin of the ranks is empty, and ours is left alone", "[input]") {
  const RunResult result = run(
      {.args = {"sh", "-c", build_path("hvdrun") + " -np 2 cat; cat"}, .input = "for the shell\n"});
  CHECK(result.out == "for the shell\n");
}

TEST_CASE("input that no rank gets is said once, unless that is meant", "[input]") {
  const auto hints = [](const RunResult& result) {
    const std::string hint = "hvdrun: stdin has input, and no rank gets it: --stdin 0";
    CHECK(result.exit_code == 0);
    const auto first = result.err.find(hint);
    if (first == std::string::npos) CHECK(result.err.empty());
    if (first == std::string::npos) return 0;
    return result.err.find(hint, first + 1) == std::string::npos ? 1 : 2;
  };
  const auto shell = [](const std::string& script, const std::string& input = "") {
    return run({.args = {"sh", "-c", script}, .input = input, .limit = 20s});
  };
  TempFolder folder;
  const std::string file = folder.file("file", "bytes\n");
  const std::string job = build_path("hvdrun") + " -np 2 true";
  CHECK(hints(shell(job, "bytes\n")) == 1);
  CHECK(hints(shell(job + " < " + file)) == 1);
  CHECK(hints(shell("(read line; " + job + ") < " + file)) == 0);  // nothing is left of it
  CHECK(hints(shell("true | " + job)) == 0);
  CHECK(hints(shell(job)) == 0);
  CHECK(hints(shell(build_path("hvdrun") + " --stdin none -np 2 true", "bytes\n")) == 0);
  CHECK(hints(shell(build_path("hvdrun") + " --stdin 1 -np 2 cat", "bytes\n")) == 0);
  // Bytes that come while the job runs are seen at its end.
  const std::string go = folder.path() + "/go";
  const std::string gone = folder.path() + "/gone";
  REQUIRE(mkfifo(go.c_str(), 0600) == 0);
  REQUIRE(mkfifo(gone.c_str(), 0600) == 0);
  CHECK(hints(shell("(read x < " + go + "; echo bytes; echo > " + gone + ") | " +
                    build_path("hvdrun") + " -np 1 sh -c 'echo > " + go + "; read x < " + gone +
                    "'")) == 1);
}

// The text behind the tag of `rank`, line by line: other ranks' lines may come in between.
std::string lines_of(const std::string& output, const std::string& rank) {
  const std::string tag = "[" + rank + "]<stdout>:";
  std::istringstream lines(output);
  std::string found;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(tag)) found += line.substr(tag.size()) + "\n";
  return found;
}

TEST_CASE("stdin goes to one rank or to all, with its end", "[input]") {
  const auto with = [](const std::string& to) {
    return hvdrun({"--stdin", to, "-np", "2", "sh", "-c", "cat; echo end"},
                  {.input = "one\ntwo\n", .limit = 20s})
        .out;
  };
  const std::string first = with("0");
  CHECK(lines_of(first, "0") == "one\ntwo\nend\n");
  CHECK(lines_of(first, "1") == "end\n");
  const std::string second = with("1");
  CHECK(lines_of(second, "0") == "end\n");
  CHECK(lines_of(second, "1") == "one\ntwo\nend\n");
  const std::string all = with("all");
  CHECK(lines_of(all, "0") == "one\ntwo\nend\n");
  CHECK(lines_of(all, "1") == "one\ntwo\nend\n");
  // The end of the last line is not needed.
  const RunResult count =
      hvdrun({"--stdin", "1", "-np", "2", "wc", "-c"}, {.input = "one\ntwo", .limit = 20s});
  CHECK(lines_of(count.out, "1") == "7\n");
}

// More than all buffers on the way hold, from a pipe and from a file.
TEST_CASE("a long stdin reaches every rank unchanged", "[input]") {
  const std::string control = GENERATE("unix", "tcp");
  TempFolder folder;
  const std::string file = folder.path() + "/bytes";
  REQUIRE(run({.args = {"sh", "-c", "head -c 5000000 /dev/urandom > " + file}}).exit_code == 0);
  const std::string sum = run({.args = {"sh", "-c", "cksum < " + file}}).out;
  const std::string job =
      build_path("hvdrun") + " --tag-output off --stdin all --control " + control + " -np 3 cksum";
  CHECK(run({.args = {"sh", "-c", job + " < " + file}}).out == sum + sum + sum);
  CHECK(run({.args = {"sh", "-c", "cat " + file + " | " + job}}).out == sum + sum + sum);
}

TEST_CASE("a rank that reads no more does not hold up the others", "[input]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    "yes | " + build_path("hvdrun") +
                        " --stdin all --tag-output off -np 3 sh -c '"
                        "if [ $HVD_RANK = 0 ]; then head -c 3000000 | wc -c; fi; "
                        "if [ $HVD_RANK = 1 ]; then exec 0<&-; sleep 0.5; fi'"},
           .limit = 20s});
  CHECK(result.out == "3000000\n");
}

TEST_CASE("a question is shown before its answer", "[input]") {
  TempFolder folder;
  const std::string fifo = folder.path() + "/fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  const int answers = open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(answers >= 0);
  Background job({.args = {"sh", "-c",
                           "exec " + build_path("hvdrun") +
                               " --stdin 0 -np 2 sh -c 'test $HVD_RANK = 1 || { printf name:; "
                               "read name; echo hello $name; }' < " +
                               fifo}});
  job.wait_for_output("[0]<stdout>:name:", 10s);
  REQUIRE(write(answers, "Bob\n", 4) == 4);
  job.wait_for_output("hello Bob\n", 10s);
  CHECK(job.wait(10s) == 0);
  close(answers);
}

// The shell tells a stopped job from one that has ended.
TEST_CASE("in the background hvdrun leaves the terminal alone", "[input]") {
  const std::string to = GENERATE("none", "0");
  TempFolder folder;
  const std::string program = build_path("hvdrun") + " -np 1 --stdin " + to + " sleep 1";
  const std::string script =
      folder.file("script", "set -m\n" + program + " &\nwait %1\necho code $?\n");
  const RunResult result =
      run({.args = {"script", "-qec", "bash " + script, "/dev/null"}, .limit = 20s});
  CHECK(result.out.find("code 0") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
