#include "cli/run/local_transport.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fcntl.h>
#include <signal.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

#include "common/base/fault_text.h"
#include "common/process/process_tree.h"
#include "common/process/stand_in.h"
#include "worker/agent/guard.h"

extern char** environ;

namespace hvdrun {
namespace {

constexpr int kControlFd = 3;
constexpr int kOutputFd = 4;

std::error_code write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::write(fd, bytes.data(), bytes.size());
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return {errno, std::system_category()};
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

// Descriptor numbers in the guard, whatever they are here.
using Handover = std::vector<std::pair<int, int>>;

[[noreturn]] void leave(int error) {
  std::fprintf(stderr, "hvdrun: the guard of this machine: %s\n",
               fault_text(std::error_code(error, std::system_category())).c_str());
  ::_exit(1);
}

[[noreturn]] void run_as_guard(const Handover& fds) {
  ::setsid();
  // Two steps: a target may be the number of another source.
  constexpr int kAbove = kOutputFd + 1;
  std::vector<std::pair<int, int>> moved;
  for (const auto& [from, to] : fds) {
    moved.emplace_back(::fcntl(from, F_DUPFD, kAbove), to);
    if (moved.back().first < 0) leave(errno);
  }
  std::vector<unsigned> keep{1};
  for (const auto& [from, to] : moved) {
    if (::dup2(from, to) < 0) leave(errno);
    keep.push_back(static_cast<unsigned>(to));
  }
  close_all_but(keep);
  int code = 1;
  try {
    code = run_guard();
  } catch (const std::exception&) {
    code = 1;  // out of memory, say; the driver sees the guard end
  }
  ::_exit(code);  // the exit handlers are the driver's
}

std::error_code start_guard(const std::string& program, const Handover& fds, Process& guard) {
  if (!program.empty()) {
    SpawnOptions options;
    options.path = program;
    options.argv = {"hvd-agent", "guard"};
    for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
    options.new_session = true;  // the terminal's signals are for the driver alone
    options.fds = fds;
    return spawn(options, guard);
  }
  const pid_t pid = ::fork();
  if (pid < 0) return {errno, std::system_category()};
  if (pid == 0) run_as_guard(fds);
  return adopt_child(pid, guard);
}

[[noreturn]] void run_as_keeper(const std::string& program, const Handover& fds) noexcept {
  ::setsid();
  ::prctl(PR_SET_NAME, "hvd-keeper", 0, 0, 0);
  ::signal(SIGCHLD, SIG_DFL);
  become_subreaper();
  Process guard;
  if (const std::error_code ec = start_guard(program, fds, guard)) leave(ec.value());
  // The guard's connections among them: held here too, their ends would never be seen.
  close_all_but({});
  const int status = wait_for_child(guard.pid);
  kill_descendants_and_wait();
  end_as(status);
}

std::error_code start_keeper(const std::string& program, const Handover& fds, Process& keeper) {
  const pid_t pid = ::fork();
  if (pid < 0) return {errno, std::system_category()};
  if (pid == 0) run_as_keeper(program, fds);
  return adopt_child(pid, keeper);
}

}  // namespace

std::string agent_program() {
  const char* const program = ::secure_getenv("HVDRUN_AGENT");
  if (program == nullptr || *program == '\0') return "";
  if (::access(program, X_OK) != 0)
    throw std::runtime_error("HVDRUN_AGENT '" + std::string(program) +
                             "': " + std::system_category().message(errno));
  return program;
}

std::error_code open_local_host(const std::string& program, bool keeper, Bootstrap bootstrap,
                                LocalConnections connections, OpenHost& host) {
  int lease[2];
  if (::pipe2(lease, O_CLOEXEC) != 0) return {errno, std::system_category()};
  const UniqueFd read_end(lease[0]);
  host.lease.reset(lease[1]);
  int words[2];
  if (::pipe2(words, O_CLOEXEC) != 0) return {errno, std::system_category()};
  const UniqueFd words_end(words[1]);
  host.words.reset(words[0]);
  Handover fds{{read_end.get(), 0}, {words_end.get(), 2}};
  if (connections.control) {
    fds.emplace_back(connections.control.get(), kControlFd);
    bootstrap.control.fd = kControlFd;
  }
  if (connections.output) {
    fds.emplace_back(connections.output.get(), kOutputFd);
    bootstrap.output.fd = kOutputFd;
  }
  const auto start = keeper ? start_keeper : start_guard;
  if (const std::error_code ec = start(program, fds, host.guard)) return ec;
  // Far less than a pipe holds, so this cannot block.
  return write_all(host.lease.get(), encode_frame(bootstrap));
}

}  // namespace hvdrun
