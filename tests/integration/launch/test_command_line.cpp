// The command line of the real hvdrun: what starts nothing, and what files and variables change.
#include <algorithm>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using Args = std::vector<std::string>;

TEST_CASE("bad input is one or two lines and 64, at once", "[command line]") {
  const auto [args, part] = GENERATE(table<Args, std::string>({
      {{"-np", "0", "true"}, "-np '0'"},
      {{"-np", "-1", "true"}, "-np '-1'"},
      {{"-np", "2"}, "no program"},
      {{"-H", "localhost:1 localhost:2", "true"}, "a blank"},
      {{"-H", "localhost:1", "localhost:2", "true"}, "is 'localhost:2' a host?"},
      {{"-H", "localhost:1,b:x", "true"}, "'b:x'"},
      {{"-H", "@localhost:1", "true"}, "user name"},
      {{"-H", "localhost:server2_ip:2", "true"}, "'server2_ip' is no port"},
      {{"-H", "fd00::1:4", "true"}, "an IPv6 address without brackets"},
      {{"-H", "-oProxyCommand=id:1", "true"}, "must not begin with '-'"},
      {{"-H", "$(touch x):1", "true"}, "a blank"},
      {{"-H", "$(id)@h:1", "true"}, "a character that user names do not have"},
      {{"-H", "localhost:0", "true"}, "no slots"},
      {{"-H", "localhost:99999", "true"}, "more than 16384 slots"},
      {{"-np", "2", "--hostfile", "/", "true"}, "'/': is not a file"},
      {{"-np", "3", "-H", "localhost:2", "true"}, "2 slots"},
      {{"-np", "2", "--hostfile", "/no/such", "true"}, "/no/such"},
      {{"-np", "2", "--config-file", "/no/such", "true"}, "/no/such"},
      {{"-np", "2", "--env-file", "/no/such", "true"}, "/no/such"},
      {{"-np", "2", "--chdir", "/no/such", "true"}, "'/no/such'"},
      {{"-np", "2", "--tag-outptu", "off", "true"}, "did you mean --tag-output?"},
      {{"-np", "2", "--mpi", "true"}, "without MPI"},
      {{"explain", "many"}, "'many'"},
  }));
  CAPTURE(args);
  const RunResult result = hvdrun(args);
  INFO(result.err);
  CHECK(result.exit_code == 64);
  CHECK(result.out.empty());
  CHECK(result.err.compare(0, 8, "hvdrun: ") == 0);
  CHECK(result.err.find(part) != std::string::npos);
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') <= 2);
}

TEST_CASE("a missing program is 127 and one line for all ranks", "[command line]") {
  const RunResult result = hvdrun({"-np", "64", "no-such-program"});
  CHECK(result.exit_code == 127);
  CHECK(result.err == "hvdrun: 'no-such-program': no such program in PATH\n");
}

TEST_CASE("a line of horovodrun or mpirun does what it says", "[command line]") {
  const Args program = {"sh", "-c", "echo $HVD_RANK/$HVD_SIZE $HOROVOD_CYCLE_TIME"};
  for (Args args : {Args{"--gloo", "-np", "2", "-H", "localhost:2", "--cycle-time-ms", "3"},
                    Args{"-np", "2", "--allow-run-as-root", "-bind-to", "none", "-map-by", "slot",
                         "-mca", "pml", "ob1", "-x", "HOROVOD_CYCLE_TIME=3"}}) {
    args.insert(args.end(), program.begin(), program.end());
    const RunResult result = hvdrun(args);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(result.out.find("[0]<stdout>:0/2 3\n") != std::string::npos);
    CHECK(result.out.find("[1]<stdout>:1/2 3\n") != std::string::npos);
  }
}

TEST_CASE("under the name horovodrun it is the same program", "[command line]") {
  TempFolder folder;
  const std::string link = folder.path() + "/horovodrun";
  REQUIRE(run({.args = {"ln", "-s", build_path("hvdrun"), link}}).exit_code == 0);
  const RunResult result =
      run({.args = {link, "-np", "2", "true"}, .env = {{"HVDRUN_AGENT", build_path("hvd-agent")}}});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
}

TEST_CASE("hosts, variables and settings come from files", "[command line]") {
  TempFolder folder;
  const std::string hosts = folder.file("hosts", "# this one\nlocalhost slots=3 max_slots=8\n");
  const std::string variables = folder.file("env", "GREETING=\"good day\"\n");
  const std::string config = folder.file("config.yaml", "params:\n  cache_capacity: 5\n");
  const RunResult result =
      hvdrun({"--hostfile", hosts, "--env-file", variables, "--chdir", folder.path(), "sh", "-c",
              "echo $GREETING $HOROVOD_CACHE_CAPACITY $(pwd)"},
             {.env = {{"HVDRUN_CONFIG_FILE", config}}});
  CHECK(result.exit_code == 0);
  for (const char* rank : {"0", "1", "2"})
    CHECK(result.out.find("[" + std::string(rank) + "]<stdout>:good day 5 " + folder.path() +
                          "\n") != std::string::npos);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 3);
}

TEST_CASE("a hostfile may be a pipe", "[command line]") {
  const RunResult result =
      run({.args = {"sh", "-c",
                    "echo localhost:2 | " + build_path("hvdrun") +
                        " --hostfile /dev/stdin sh -c 'echo size=$HVD_SIZE'"}});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("[1]<stdout>:size=2\n") != std::string::npos);
}

TEST_CASE("a variable stands for an option, and the option beats it", "[command line]") {
  const Args program = {"sh", "-c", "echo size=$HVD_SIZE"};
  const RunOptions env = {.env = {{"HVDRUN_NP", "3"}}};
  CHECK(hvdrun(program, env).out.find("size=3") != std::string::npos);
  Args args = {"-np", "1"};
  args.insert(args.end(), program.begin(), program.end());
  CHECK(hvdrun(args, env).out == "[0]<stdout>:size=1\n");
}

TEST_CASE("several programs are one job", "[command line]") {
  const RunResult result = hvdrun({"-np", "1", "sh", "-c", "echo first $HVD_RANK/$HVD_SIZE", ":",
                                   "-np", "2", "sh", "-c", "echo second $HVD_RANK/$HVD_SIZE"});
  CHECK(result.exit_code == 0);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 3);
  for (const char* line : {"first 0/3\n", "second 1/3\n", "second 2/3\n"})
    CHECK(result.out.find(line) != std::string::npos);
  const RunResult missing = hvdrun({"-np", "1", "true", ":", "-np", "1", "/no/such"});
  CHECK(missing.exit_code == 127);
  CHECK(std::count(missing.err.begin(), missing.err.end(), '\n') == 1);
}

TEST_CASE("a dry run starts nothing", "[command line]") {
  TempFolder folder;
  const std::string file = folder.path() + "/made";
  RunResult result = hvdrun({"--dry-run", "-np", "2", "touch", file});
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  CHECK(result.out.find("2 ranks on 1 host\n") == 0);
  CHECK(result.out.find("command: touch " + file + "\n") != std::string::npos);
  result = hvdrun({"--dry-run", "--json", "-np", "2", "touch", file});
  CHECK(result.out.find("{\"np\":2,") == 0);
  CHECK(run({.args = {"test", "-e", file}}).exit_code == 1);
}

TEST_CASE("exit codes are explained, and a program of that name still starts", "[command line]") {
  CHECK(hvdrun({"explain", "139"}).out.find("139: ") == 0);
  TempFolder folder;
  const std::string file = folder.file("explain", "#!/bin/sh\necho mine\n");
  REQUIRE(run({.args = {"chmod", "+x", file}}).exit_code == 0);
  const std::pair<std::string, std::string> path = {"PATH", folder.path() + ":/usr/bin:/bin"};
  for (const Args& args : {Args{"-np", "1", "--", "explain"}, Args{"-np", "1", "explain"},
                           Args{"-np", "1", "./explain"}})
    CHECK(hvdrun(args, {.env = {path}, .cwd = folder.path()}).out == "[0]<stdout>:mine\n");
}

}  // namespace
}  // namespace hvdrun::test
