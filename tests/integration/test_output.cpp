#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/integration/run_program.h"

namespace hvdrun::test {
namespace {

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

TEST_CASE("stdin of the ranks is empty, and ours is left alone", "[output]") {
  const RunResult result = run(
      {.args = {"sh", "-c", build_path("hvdrun") + " -np 2 cat; cat"}, .input = "for the shell\n"});
  CHECK(result.out == "for the shell\n");
}

TEST_CASE("a reader that goes away ends the job", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") + " -np 2 yes | head -n 2; echo ${PIPESTATUS[0]}"}});
  CHECK(result.out.find("<stdout>:y\n") != std::string::npos);
  CHECK(result.out.substr(result.out.size() - 4) == "141\n");
}

// Slower than any of our own time-outs after the end of the job: what was printed is not lost.
TEST_CASE("output waits for a slow reader", "[output]") {
  const RunResult result =
      run({.args = {"bash", "-c",
                    build_path("hvdrun") +
                        " -np 2 sh -c 'yes $HVD_RANK | head -n 500000' | (sleep 7; wc -l)"}});
  CHECK(result.out == "1000000\n");
}

}  // namespace
}  // namespace hvdrun::test
