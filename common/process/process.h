// Processes: start one, and know how it ended. Signals go through a pidfd, so a recycled process
// id is never hit.
#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/unique_fd.h"

namespace hvdrun {

struct Process {
  pid_t pid = -1;
  UniqueFd pidfd;  // readable once the process has ended
};

struct SpawnOptions {
  std::string path;  // an executable; not searched for
  std::vector<std::string> argv;
  std::vector<std::string> env;          // NAME=value
  std::string cwd;                       // empty: the caller's
  std::vector<std::pair<int, int>> fds;  // {descriptor here, number there}; all others close
  bool new_session = false;
  std::uint64_t descriptor_limit = 0;  // soft limit of open files there; 0: the caller's
};

// Starts the program with default signal handling and an empty signal mask. It has no descriptors
// but those of `fds`, and 0 to 2, which are inherited when they are not among them. A script
// without #! is run by /bin/sh, as by execvp and shells. On a fault: the error of exec, chdir or
// fork, and no process.
std::error_code spawn(const SpawnOptions& options, Process& process);

// Takes a child that fork() has just made; a fault (no pidfds) kills it.
std::error_code adopt_child(pid_t pid, Process& process);

// For a child that goes on without exec: every other descriptor is closed.
void close_all_but(std::vector<unsigned> keep);

struct ExitStatus {
  bool signaled = false;
  int value = 0;  // exit code, or signal number
};

// True when it has ended, reaped or not. To be asked where its pidfd is said to be readable: Asio
// may tell a new descriptor's waiter what was said of one that was closed in the same turn of the
// loop.
bool is_over(const Process& process);

// Reaps a child that has ended. False when it is still running (or not our child).
bool try_reap(const Process& process, ExitStatus& status);

// Sends a signal; a process that is gone already is no error.
void send_signal(const Process& process, int signal);

// The file to execute for `program`, as execvp would find it in `path` (the value of PATH) from
// folder `cwd`. errno-like error: ENOENT when there is none, EACCES when it is not executable.
std::error_code find_program(const std::string& program, const std::string& path,
                             const std::string& cwd, std::string& file);

}  // namespace hvdrun
