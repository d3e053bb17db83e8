// --output-filename, and output that nobody reads.
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

std::string file_contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// Polls, because a file tells nobody that it has grown.
bool wait_for_file(const std::string& path, const std::string& text) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (file_contents(path).find(text) == std::string::npos) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    usleep(2000);
  }
  return true;
}

bool wait_for_size(const std::string& path, std::size_t size) {
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (file_contents(path).size() < size) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    usleep(2000);
  }
  return true;
}

// A number of /proc/PID/status, in KiB.
long status_of(pid_t pid, const std::string& name) {
  std::istringstream lines(file_contents("/proc/" + std::to_string(pid) + "/status"));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + ":")) return std::stol(line.substr(name.size() + 1));
  return -1;
}

TEST_CASE("a megabyte of random bytes on both streams of 8 ranks is in the files", "[output]") {
  TempFolder folder;
  const std::string out = folder.path() + "/out";
  const RunResult result =
      hvdrun({"-np", "8", "--output-filename", out, "sh", "-c",
              "f=" + folder.path() +
                  "/$HVD_RANK; head -c 1048576 /dev/urandom > $f.stdout; head -c 1048576 "
                  "/dev/urandom > $f.stderr; cat $f.stderr >&2 & cat $f.stdout; wait"});
  REQUIRE(result.exit_code == 0);
  for (int rank = 0; rank < 8; ++rank) {
    for (const char* stream : {"stdout", "stderr"}) {
      CAPTURE(rank, stream);
      const std::string r = std::to_string(rank);
      const std::string written = file_contents(folder.path() + "/" + r + "." + stream);
      REQUIRE(written.size() == 1048576);
      const bool same = file_contents(out + "/rank." + r + "/" + stream) == written;
      CHECK(same);
    }
  }
  CHECK(result.out.size() > 8 * 1048576);
  CHECK(result.err.size() > 8 * 1048576);
}

TEST_CASE("files have the bytes alone, the terminal the lines, and nothing is overwritten",
          "[output]") {
  TempFolder folder;
  const std::vector<std::string> args = {"-np",
                                         "1",
                                         "--output-filename",
                                         folder.path() + "/a/b",
                                         "sh",
                                         "-c",
                                         "printf out; printf 'err\\n' >&2"};
  const RunResult first = hvdrun(args);
  CHECK(first.exit_code == 0);
  CHECK(first.out == "[0]<stdout>:out\n");
  CHECK(first.err == "[0]<stderr>:err\n");
  CHECK(file_contents(folder.path() + "/a/b/rank.0/stdout") == "out");
  CHECK(file_contents(folder.path() + "/a/b/rank.0/stderr") == "err\n");
  const RunResult second = hvdrun(args);
  CHECK(second.err.find("the files of an earlier run are in " + folder.path() + "/a/b/run.1 now") !=
        std::string::npos);
  CHECK(file_contents(folder.path() + "/a/b/rank.0/stdout") == "out");
  CHECK(file_contents(folder.path() + "/a/b/run.1/rank.0/stdout") == "out");
}

TEST_CASE("a folder that cannot be is said before anything starts", "[output]") {
  TempFolder folder;
  const std::string file = folder.file("file", "");
  const RunResult result =
      hvdrun({"-np", "2", "--output-filename", file + "/out", "touch", folder.path() + "/started"});
  CHECK(result.exit_code == 64);
  CHECK(result.err == "hvdrun: --output-filename: " + file + "/out: Not a directory\n");
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/started"));
}

TEST_CASE("a file that cannot grow is named once, and the job goes on", "[output]") {
  TempFolder folder;
  const RunResult result =
      run({.args = {"bash", "-c",
                    "ulimit -f 16; exec " + build_path("hvdrun") + " -np 2 --output-filename " +
                        folder.path() +
                        " sh -c 'if [ $HVD_RANK = 0 ]; then seq 10000; else echo short; fi'"}});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "hvdrun: " + folder.path() +
                          "/rank.0/stdout: File too large; the file ends here, the job goes on\n");
  CHECK(result.out.find("[0]<stdout>:10000\n") != std::string::npos);
  const std::string kept = file_contents(folder.path() + "/rank.0/stdout");
  CHECK(kept.size() == 16384);
  CHECK(kept.starts_with("1\n2\n3\n"));
  CHECK(file_contents(folder.path() + "/rank.1/stdout") == "short\n");
}

// Rank 0 floods an output that nobody reads; rank 1 prints when it is told to.
TEST_CASE("a rank that floods holds up neither another's lines nor our memory", "[output]") {
  TempFolder folder;
  const auto marker = fresh_marker();
  Background job({.args = {build_path("hvdrun"), "-np", "2", "--grace", "1", "--output-filename",
                           folder.path() + "/out", "sh", "-c",
                           "if [ $HVD_RANK = 0 ]; then yes; fi; while [ ! -e " + folder.path() +
                               "/go ]; do sleep 0.01; done; echo marker; sleep 60"},
                  .env = {marker}});
  // Its credit is used up, so everything on the way to the console is full.
  REQUIRE(wait_for_size(folder.path() + "/out/rank.0/stdout", 260'000));
  std::ofstream(folder.path() + "/go") << "";
  REQUIRE(wait_for_file(folder.path() + "/out/rank.1/stdout", "marker\n"));
  // Ahead of it are the pipe, what is on its way, and a piece of each. In the order in which it
  // came 1.8 MB would be.
  const std::string text = job.wait_for_output("[1]<stdout>:marker\n", 20s);
  CHECK(text.size() < 500'000);
  for (const auto& process : processes_with(marker.first + "=" + marker.second)) {
    if (process.name != "hvdrun" && process.name != "hvd-agent") continue;
    CAPTURE(process.name);
    CHECK(status_of(process.pid, "VmHWM") > 0);
    if (!is_sanitized()) CHECK(status_of(process.pid, "VmHWM") < 64 * 1024);
  }
  kill(job.pid(), SIGTERM);
  CHECK(job.wait(10s) == 143);
}

// Rank 0 floods and ignores TERM, the others print now and then and answer it.
constexpr const char* kPrinters =
    "if [ $HVD_RANK = 0 ]; then trap '' TERM; yes; fi; trap 'echo told; exit 0' TERM; "
    "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.02; done";

TEST_CASE("a terminal that is stuck stops nothing but who prints", "[output]") {
  TempFolder folder;
  const std::string out = folder.path() + "/out";
  Background job({.args = {build_path("hvdrun"), "-np", "2", "--grace", "1", "--lease", "2",
                           "--output-filename", out, "sh", "-c", kPrinters}});
  // Longer than the lease, with nobody reading our output: rank 1 goes on, and so does its file.
  REQUIRE(wait_for_file(out + "/rank.1/stdout", "line 150\n"));
  const std::string flags = file_contents("/proc/" + std::to_string(job.pid()) + "/fdinfo/1");
  const auto at = flags.find("flags:");
  REQUIRE(at != std::string::npos);
  CHECK((std::stol(flags.substr(at + 6), nullptr, 8) & O_NONBLOCK) == 0);
  REQUIRE(kill(job.pid(), SIGTERM) == 0);
  REQUIRE(wait_for_file(out + "/rank.1/stdout", "told\n"));
  CHECK(std::filesystem::file_size(out + "/rank.0/stdout") > 200'000);
  // Nobody reads: only its end counts. Background::wait() would read.
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (status_of(job.pid(), "VmHWM") > 0 && std::chrono::steady_clock::now() < deadline)
    usleep(2000);
  CHECK(status_of(job.pid(), "VmHWM") == -1);
  CHECK(job.wait(1s) == 143);
}

}  // namespace
}  // namespace hvdrun::test
