// Runs real programs for tests: with a time limit, with both outputs caught, from outside.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace hvdrun::test {

struct RunOptions {
  std::vector<std::string> args = {};                         // the program first
  std::vector<std::pair<std::string, std::string>> env = {};  // on top of the test's own
  std::string cwd = {};
  std::string input = {};  // on stdin; empty: /dev/null
  std::chrono::seconds limit{60};
};

struct RunResult {
  int exit_code = -1;  // 128 + signal for a signal; -1 when the limit was reached
  std::string out;
  std::string err;
  std::chrono::milliseconds time{};
};

RunResult run(const RunOptions& options);

// build/hvdrun with these arguments.
RunResult hvdrun(std::vector<std::string> args, RunOptions options = {});

// A program in the background, killed (with SIGKILL, by its process id) when this is destroyed.
class Background {
 public:
  explicit Background(const RunOptions& options);
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  pid_t pid() const { return pid_; }
  // Its words on both outputs so far; waits until `text` is among it so often, or throws.
  std::string wait_for_output(const std::string& text, std::chrono::seconds limit,
                              std::size_t times = 1);
  // The output that has been read.
  const std::string& output() const { return text_; }
  // The bytes that wait in the pipe, which nobody reads but the functions here.
  std::size_t unread() const;
  // Its exit code as above; -1 when it is still running after the limit.
  int wait(std::chrono::milliseconds limit);
  // The same, and its outputs are not read.
  int wait_unread(std::chrono::milliseconds limit);

 private:
  bool has_ended();

  pid_t pid_ = -1;
  int output_ = -1;
  std::string text_;
  bool reaped_ = false;
  int exit_code_ = -1;
};

// One process of a look at all of /proc, from outside: not our own tree-walking code.
struct ProcessInfo {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string name;     // comm
  std::string cmdline;  // arguments, blank separated
  std::string environ;  // as in /proc, with zero bytes
};

// All processes that are alive (no zombies), without this one.
std::vector<ProcessInfo> all_processes();
// Those whose environment has `marker`.
std::vector<ProcessInfo> processes_with(const std::string& marker);
// The same, waiting until there are exactly as many of each name: what is just being forked still
// has its parent's.
std::vector<ProcessInfo> wait_for_processes(const std::string& marker,
                                            const std::map<std::string, int>& names,
                                            std::chrono::seconds limit);
// Waits until none is left; returns those that are still there after the limit.
std::vector<ProcessInfo> wait_until_gone(const std::string& marker,
                                         std::chrono::milliseconds limit);

// A NAME=value that marks the processes of one test.
std::pair<std::string, std::string> fresh_marker();

// The programs of the build are slower and larger, and have threads of their own.
bool is_sanitized();

std::string build_path(const std::string& file);
std::string worker_probe();  // the program of worker_probe.cpp
std::string source_path(const std::string& file);
// A folder of its own for the test, removed with its contents at the end.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name, const std::string& contents) const;

 private:
  std::string path_;
};

}  // namespace hvdrun::test
