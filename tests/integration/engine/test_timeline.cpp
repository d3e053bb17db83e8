// --timeline-filename with real processes. The probe records; nothing else does in it.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

std::string timeline_probe() { return build_path("tests/integration/programs/timeline_probe"); }

// The words of check_timeline.py on the file, which is JSON.
std::string contents_of(const std::string& path) {
  const RunResult result =
      run({.args = {"/usr/bin/python3", source_path("tests/integration/programs/check_timeline.py"),
                    path}});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  return result.out;
}

bool has_line(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

TEST_CASE("a timeline has all ranks of all hosts", "[timeline]") {
  const std::string control = GENERATE("unix", "tcp");
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  const RunResult result =
      hvdrun({"--transport", "local", "--control", control, "-H", "a:2,b:1", "--timeline-filename",
              file, "--timeline-mark-cycles", timeline_probe(), "10"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  const std::string text = contents_of(file);
  INFO(text);
  CHECK(has_line(text, "rank 0 (a)"));
  CHECK(has_line(text, "rank 1 (a)"));
  CHECK(has_line(text, "rank 2 (b)"));
  for (const std::string rank : {"0", "1", "2"}) {
    for (const std::string name : {"NEGOTIATE_ALLREDUCE", "QUEUE", "MEMCPY_IN_FUSION_BUFFER",
                                   "ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER"})
      CHECK(has_line(text, rank + " grad.0 " + name + " 10"));
    CHECK(has_line(text, rank + " outer \"tensor\" QUEUE 10"));
    CHECK(has_line(text, rank + " cycles CYCLE_START 10"));
  }
}

TEST_CASE("the timeline is where hvdrun was started, from a variable too, cycles only if asked",
          "[timeline]") {
  const auto [name, value] =
      GENERATE(table<std::string, std::string>({{"HOROVOD_TIMELINE", "t.json"},
                                                {"HVD_TIMELINE", "t.json"},
                                                {"HVDRUN_TIMELINE_FILENAME", "t.json"}}));
  const TempFolder folder;
  const TempFolder other;
  RunOptions options;
  options.cwd = folder.path();
  options.env = {{name, value}};
  const RunResult result =
      hvdrun({"-np", "2", "--chdir", other.path(), timeline_probe(), "3"}, options);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const std::string text = contents_of(folder.path() + "/t.json");
  CHECK(has_line(text, "1 grad.0 ALLREDUCE 3"));
  CHECK(text.find("CYCLE_START") == std::string::npos);
}

TEST_CASE("a timeline that cannot be written is one line, and nothing starts", "[timeline]") {
  const TempFolder folder;
  const auto [file, why] = GENERATE(table<std::string, std::string>(
      {{"no/such/folder/t.json", "No such file"}, {".", "directory"}, {"/dev/full", "regular"}}));
  RunOptions options;
  options.cwd = folder.path();
  const RunResult result = hvdrun(
      {"-np", "1", "--timeline-filename", file, "touch", folder.path() + "/started"}, options);
  INFO(result.err);
  CHECK(result.exit_code == 64);
  CHECK(result.err.find("hvdrun: --timeline-filename '" + file + "': ") == 0);
  CHECK(result.err.find(why) != std::string::npos);
  CHECK(result.err.find('\n') == result.err.size() - 1);
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/started"));
}

TEST_CASE("a program that records nothing leaves an empty timeline, or its own", "[timeline]") {
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  CHECK(hvdrun({"-np", "1", "--timeline-filename", file, "true"}).exit_code == 0);
  CHECK(contents_of(file).empty());
  // As Horovod does, which opens the file of HOROVOD_TIMELINE itself.
  CHECK(hvdrun({"-np", "1", "--timeline-filename", file, "sh", "-c",
                "echo mine > \"$HOROVOD_TIMELINE\""})
            .exit_code == 0);
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CHECK(text.str() == "mine\n");
}

TEST_CASE("whoever is killed, the timeline is valid and has what was under way", "[timeline]") {
  const std::string whom = GENERATE("a rank", "the agent", "hvdrun");
  CAPTURE(whom);
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  const auto marker = fresh_marker();
  RunOptions options;
  options.args = {build_path("hvdrun"), "-np", "3",   "--timeline-filename", file,
                  timeline_probe(),     "5",   "wait"};
  options.env = {marker};
  Background job(options);
  for (int rank = 0; rank < 3; ++rank)
    job.wait_for_output("[" + std::to_string(rank) + "]<stdout>:waiting", 20s);
  contents_of(file);
  pid_t target = job.pid();
  for (const ProcessInfo& process : processes_with(marker.first + "=" + marker.second)) {
    if (whom == "a rank" && process.environ.find("HVD_RANK=1") != std::string::npos)
      target = process.pid;
    if (whom == "the agent" && process.name == "hvd-agent") target = process.pid;
  }
  REQUIRE(::kill(target, SIGKILL) == 0);
  CHECK(job.wait(20s) > 0);
  CHECK(wait_until_gone(marker.first + "=" + marker.second, 10s).empty());
  const std::string text = contents_of(file);
  INFO(text);
  for (const std::string rank : {"0", "1", "2"}) {
    CHECK(has_line(text, rank + " grad.0 ALLREDUCE 5"));
    CHECK(has_line(text, rank + " stuck ALLTOALL 1") == (whom != "hvdrun"));
  }
}

TEST_CASE("a program starts and stops timelines", "[timeline]") {
  const TempFolder folder;
  const RunResult result = hvdrun({"--transport", "local", "-H", "a:2,b:1", "--timeline-filename",
                                   "DYNAMIC", timeline_probe(), "dynamic", folder.path()});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(result.err.empty());
  for (const int i : {0, 1}) {
    const std::string text = contents_of(folder.path() + "/" + std::to_string(i) + ".json");
    INFO(text);
    for (const std::string rank : {"0", "1", "2"}) {
      CHECK(has_line(text, rank + " grad.0 ALLREDUCE " + std::to_string(10 + i)));
      CHECK(has_line(text, rank + " cycles CYCLE_START " + std::to_string(10 + i)));
    }
    CHECK(text.find("not recorded") == std::string::npos);
  }
}

TEST_CASE("a program may not start a timeline unless it is allowed, nor over another file",
          "[timeline]") {
  const TempFolder folder;
  const std::string file = folder.file("0.json", "precious");
  RunResult result = hvdrun({"-np", "2", timeline_probe(), "dynamic", folder.path()});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "hvdrun: rank 0 starts a timeline in '" + file +
                          "', which only a job of --timeline-filename DYNAMIC may do\n");
  CHECK_FALSE(std::filesystem::exists(folder.path() + "/1.json"));
  result = hvdrun(
      {"-np", "2", "--timeline-filename", "DYNAMIC", timeline_probe(), "dynamic", folder.path()});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "hvdrun: timeline '" + file +
                          "': the file exists and is no timeline; it stays as it is; none is "
                          "written\n");
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  CHECK(text.str() == "precious");
  CHECK(has_line(contents_of(folder.path() + "/1.json"), "0 grad.0 ALLREDUCE 11"));
}

TEST_CASE("another host's clock is mapped to that of hvdrun", "[timeline]") {
  // A clock 5000 s ahead, as of another machine: only what the kernel calls a time name space.
  const RunOptions unshare{.args = {"unshare", "--time", "--fork", "--monotonic", "5000", "true"}};
  if (run(unshare).exit_code != 0) {
    WARN("skipped: no time name spaces for this user");
    return;
  }
  const TempFolder folder;
  const std::string agent =
      folder.file("agent", "#!/bin/sh\nexec unshare --time --fork --monotonic 5000 " +
                               build_path("hvd-agent") + " \"$@\"");
  std::filesystem::permissions(agent, std::filesystem::perms::owner_all);
  const std::string file = folder.path() + "/t.json";
  RunOptions options;
  options.env = {{"HVDRUN_AGENT", agent}};
  const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch() / 1us; };
  const auto before = now();
  const RunResult result =
      hvdrun({"--control", "tcp", "-np", "2", "--timeline-filename", file, timeline_probe(), "100"},
             options);
  const auto after = now();
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK(has_line(contents_of(file), "1 grad.0 ALLREDUCE 100"));
  const RunResult times = run({.args = {"/usr/bin/python3", "-c",
                                        "import json, sys\n"
                                        "e = json.load(open(sys.argv[1]))\n"
                                        "t = [x['ts'] for x in e if 'ts' in x]\n"
                                        "print(int(min(t)), int(max(t)))",
                                        file}});
  std::istringstream words(times.out);
  std::int64_t first = 0;
  std::int64_t last = 0;
  words >> first >> last;
  CHECK(first >= before);
  CHECK(last >= first);
  CHECK(last <= after);
}

TEST_CASE("a flood of events is dropped where it cannot be carried, and says so", "[timeline]") {
  const TempFolder folder;
  const std::string file = folder.path() + "/t.json";
  const RunResult result =
      hvdrun({"-np", "2", "--timeline-filename", file, timeline_probe(), "flood"});
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  const std::string text = contents_of(file);
  CHECK(text.find("0 cycles EVENTS_DROPPED ") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun::test
