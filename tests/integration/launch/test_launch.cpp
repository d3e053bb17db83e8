#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {
namespace {

TEST_CASE("/bin/true runs on any number of ranks", "[launch]") {
  const auto np = GENERATE("1", "2", "4", "16", "64");
  CAPTURE(np);
  const RunResult result = hvdrun({"-np", np, "/bin/true"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.empty());
}

TEST_CASE("-np below the number of slots starts exactly -np", "[launch]") {
  const RunResult result =
      hvdrun({"-np", "2", "-H", "localhost:4", "sh", "-c", "echo size=$HVD_SIZE/$WORLD_SIZE"});
  CHECK(result.exit_code == 0);
  CHECK(times_in(result.out, "size=2/2") == 2);
  CHECK(times_in(result.out, "\n") == 2);
}

TEST_CASE("the program is found in PATH, in the folder, and by its path", "[launch]") {
  TempFolder folder;
  folder.file("tool", "#!/bin/sh\necho here $1\n");
  REQUIRE(run({.args = {"chmod", "+x", folder.path() + "/tool"}}).exit_code == 0);
  CHECK(hvdrun({"-np", "1", "./tool", "a"}, {.cwd = folder.path()}).out == "[0]<stdout>:here a\n");
  CHECK(hvdrun({"-np", "1", folder.path() + "/tool", "b"}).out == "[0]<stdout>:here b\n");
  CHECK(hvdrun({"-np", "1", "-x", "PATH=/bin:" + folder.path(), "tool", "c"}).out ==
        "[0]<stdout>:here c\n");
}

TEST_CASE("a script without #! is run by /bin/sh, as shells do", "[launch]") {
  TempFolder folder;
  const std::string script = folder.file("train", "echo $1 $HVD_RANK\n");
  REQUIRE(chmod(script.c_str(), 0755) == 0);
  const RunResult result =
      hvdrun({"-np", "1", "--tag-output", "off", "./train", "two  blanks"}, {.cwd = folder.path()});
  CHECK(result.err.empty());
  CHECK(result.exit_code == 0);
  CHECK(result.out == "two blanks 0\n");
}

TEST_CASE("a script that cannot be started is told what to mend", "[launch]") {
  TempFolder folder;
  const std::string script = folder.file("train", "#!/bin/bash\r\necho hi\r\n");
  REQUIRE(chmod(script.c_str(), 0755) == 0);
  const RunResult result = hvdrun({"-np", "2", script});
  CHECK(result.exit_code == 126);
  CHECK(result.err ==
        "hvdrun: '" + script +
            "': its first line ends with a carriage return, as lines of Windows do, which is "
            "taken for part of the interpreter's name; write sed -i 's/\\r$//' " +
            script + "\n");
}

TEST_CASE("arguments and variables arrive byte for byte", "[launch]") {
  const std::string odd = "a b'c\"d$e\\f*\n\x01\xff";
  const RunResult result = hvdrun(
      {"-np", "1", "-x", "ODD=" + odd, "sh", "-c",
       "printf %s \"$1\" | cmp - $F && printf %s \"$ODD\" | cmp - $F && echo same", "x", odd},
      {.env = {{"F", TempFolder().path()}}});
  // The folder is gone: cmp fails on it. With a file of the same bytes it must not.
  CHECK(result.exit_code != 0);
  TempFolder folder;
  const std::string file = folder.file("odd", odd);
  const RunResult same = hvdrun(
      {"-np", "1", "-x", "ODD=" + odd, "sh", "-c",
       "printf %s \"$1\" | cmp - $F && printf %s \"$ODD\" | cmp - $F && echo same", "x", odd},
      {.env = {{"F", file}}});
  CHECK(same.out == "[0]<stdout>:same\n");
}

TEST_CASE("usage errors are one or two lines and 64, and start nothing", "[launch]") {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{},
                                             {"-np", "0", "true"},
                                             {"-np", "2"},
                                             {"-np", "5", "-H", "localhost:4", "true"},
                                             {"--no-such", "true"},
                                             {"-H", "localhost:x", "true"}}) {
    CAPTURE(args);
    const RunResult result = hvdrun(args);
    CHECK(result.exit_code == 64);
    CHECK(result.out.empty());
    CHECK(result.err.compare(0, 8, "hvdrun: ") == 0);
    CHECK(times_in(result.err, "\n") <= 2);
  }
}

TEST_CASE("a host that cannot be opened is named, with what was said of it", "[launch]") {
  // In place of ssh; tests/cluster has the real one.
  const RunResult result =
      hvdrun({"--ssh", "sh -c false", "-np", "1", "-H", "no-such-host:1", "true"});
  CHECK(result.exit_code == 69);
  CHECK(result.err.find("host no-such-host (connecting): sh ended with code 1") !=
        std::string::npos);
  CHECK(hvdrun({"--ssh", "no-such-ssh", "-np", "1", "-H", "no-such-host:1", "true"})
            .err.find("no-such-ssh: No such file") != std::string::npos);
}

TEST_CASE("version, build and help go to stdout", "[launch]") {
  CHECK(hvdrun({"--version"}).out == "0.9.0\n");
  CHECK(hvdrun({"-v"}).exit_code == 0);
  CHECK(hvdrun({"--check-build"}).out.find("[X] shared memory") != std::string::npos);
  CHECK(hvdrun({"--help"}).out.find("usage: hvdrun") == 0);
}

TEST_CASE("on a terminal one line says that all ranks have joined", "[launch]") {
  // script gives the launcher a terminal.
  const RunResult result = run(
      {.args = {"script", "-qec",
                build_path("hvdrun") + " -np 4 " + worker_probe() + " collectives", "/dev/null"}});
  CHECK(result.exit_code == 0);
  CHECK(times_in(result.out, "4/4 ranks joined in ") == 1);
}

TEST_CASE("verbose tells the steps on stderr", "[launch]") {
  const RunResult result = hvdrun({"--verbose", "-np", "2", "true"});
  CHECK(result.exit_code == 0);
  CHECK(result.out.empty());
  CHECK(result.err.find("coordinator is process") != std::string::npos);
  CHECK(result.err.find("2 of 2 ranks started") != std::string::npos);
}

TEST_CASE("an agent that dies before it has connected is a lost host, not a wait", "[launch]") {
  TempFolder folder;
  const std::string agent = folder.file("hvd-agent", "#!/bin/sh\nexit 3\n");
  REQUIRE(run({.args = {"chmod", "+x", agent}}).exit_code == 0);
  for (const char* control : {"unix", "tcp"}) {
    CAPTURE(control);
    const RunResult result =
        hvdrun({"--control", control, "-np", "2", "true"}, {.env = {{"HVDRUN_AGENT", agent}}});
    CHECK(result.exit_code == 69);
    CHECK(result.err.find("host localhost was lost") != std::string::npos);
    CHECK(result.time < std::chrono::seconds(5));
  }
}

TEST_CASE("an agent that is missing is named", "[launch]") {
  const RunResult result =
      hvdrun({"-np", "1", "true"}, {.env = {{"HVDRUN_AGENT", "/no/such/agent"}}});
  CHECK(result.exit_code == 70);
  CHECK(result.err.find("/no/such/agent") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
