#include "common/process/process.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process/script_check.h"

namespace hvdrun {
namespace {

constexpr const char* kShell = "/bin/sh";

std::error_code system_error(int code) { return {code, std::system_category()}; }

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> list;
  list.reserve(strings.size() + 1);
  for (const std::string& s : strings) list.push_back(const_cast<char*>(s.c_str()));
  list.push_back(nullptr);
  return list;
}

// A seccomp filter older than close_range answers ENOSYS: then one by one.
void close_range_or_each(unsigned first, unsigned last) {
  if (::syscall(SYS_close_range, first, last, 0) == 0) return;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const auto end = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, 1U << 20));
  for (unsigned fd = first; fd < end && fd <= last; ++fd) ::close(static_cast<int>(fd));
}

// posix_spawn cannot set a limit of the child, so the caller (of one thread) has it meanwhile.
// Descriptors that are open already may be above it.
class BorrowedLimit {
 public:
  explicit BorrowedLimit(std::uint64_t soft) {
    if (soft == 0 || ::getrlimit(RLIMIT_NOFILE, &before_) != 0 || before_.rlim_cur == soft) return;
    const rlimit borrowed{std::min<rlim_t>(soft, before_.rlim_max), before_.rlim_max};
    changed_ = ::setrlimit(RLIMIT_NOFILE, &borrowed) == 0;
  }
  ~BorrowedLimit() {
    if (changed_) ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  BorrowedLimit(const BorrowedLimit&) = delete;
  BorrowedLimit& operator=(const BorrowedLimit&) = delete;

 private:
  rlimit before_{};
  bool changed_ = false;
};

std::string in_folder(const std::string& path, const std::string& folder) {
  return path.front() == '/' || folder.empty() ? path : folder + "/" + path;
}

// The file in place of the program's name, which no option of the shell's may look like.
std::vector<std::string> shell_words(const SpawnOptions& options) {
  std::vector<std::string> words{kShell, options.path};
  if (options.path.front() == '-') words.back().insert(0, "./");
  if (!options.argv.empty())
    words.insert(words.end(), options.argv.begin() + 1, options.argv.end());
  return words;
}

// posix_spawn's two attribute objects, destroyed on every path.
struct Attributes {
  Attributes() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
  }
  ~Attributes() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attr{};
};

}  // namespace

std::error_code spawn(const SpawnOptions& options, Process& process) {
  Attributes a;
  short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
  if (options.new_session) flags |= POSIX_SPAWN_SETSID;
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setflags(&a.attr, flags);
  posix_spawnattr_setsigdefault(&a.attr, &all);
  posix_spawnattr_setsigmask(&a.attr, &none);

  // dup2 in two steps: sources move above every target first, so that none is overwritten before
  // it is copied.
  int above = 3;
  for (const auto& [from, to] : options.fds) above = std::max(above, to + 1);
  std::vector<UniqueFd> moved;
  for (const auto& [from, to] : options.fds) {
    moved.emplace_back(::fcntl(from, F_DUPFD_CLOEXEC, above));
    if (!moved.back()) return system_error(errno);
    posix_spawn_file_actions_adddup2(&a.actions, moved.back().get(), to);
  }
  // Asio's sockets are not close-on-exec: close whatever is not handed over.
  posix_spawn_file_actions_addclosefrom_np(&a.actions, above);
  if (!options.cwd.empty()) posix_spawn_file_actions_addchdir_np(&a.actions, options.cwd.c_str());

  const auto env = pointers(options.env);
  pid_t pid = -1;
  const auto start = [&](const std::string& path, const std::vector<std::string>& words) {
    const auto argv = pointers(words);
    const BorrowedLimit limit(options.descriptor_limit);
    return ::posix_spawn(&pid, path.c_str(), &a.actions, &a.attr, argv.data(), env.data());
  };
  int rc = start(options.path, options.argv);
  if (rc == ENOEXEC && is_shell_text(in_folder(options.path, options.cwd)))
    rc = start(kShell, shell_words(options));
  if (rc != 0) return system_error(rc);
  return adopt_child(pid, process);
}

std::error_code adopt_child(pid_t pid, Process& process) {
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int error = errno;
    ::kill(pid, SIGKILL);  // still our unreaped child, so the number cannot be another's
    ::waitpid(pid, nullptr, 0);
    return system_error(error);
  }
  process.pid = pid;
  process.pidfd.reset(pidfd);
  return {};
}

void close_all_but(std::vector<unsigned> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned next = 0;
  for (const unsigned fd : keep) {
    if (fd > next) close_range_or_each(next, fd - 1);
    next = fd + 1;
  }
  close_range_or_each(next, ~0U);
}

bool is_over(const Process& process) {
  pollfd ended{process.pidfd.get(), POLLIN, 0};
  return ::poll(&ended, 1, 0) != 0;
}

bool try_reap(const Process& process, ExitStatus& status) {
  siginfo_t info{};
  const int rc = ::waitid(P_PID, static_cast<id_t>(process.pid), &info, WEXITED | WNOHANG);
  if (rc != 0 || info.si_pid == 0) return false;
  status.signaled = info.si_code != CLD_EXITED;
  status.value = info.si_status;
  return true;
}

void send_signal(const Process& process, int signal) {
  if (::syscall(SYS_pidfd_send_signal, process.pidfd.get(), signal, nullptr, 0) != 0 &&
      (errno == ENOSYS || errno == EPERM))
    ::kill(process.pid, signal);  // a filter older than the call; safe: a child not yet reaped
}

std::error_code find_program(const std::string& program, const std::string& path,
                             const std::string& cwd, std::string& file) {
  if (program.empty()) return system_error(ENOENT);
  const auto check = [&](const std::string& candidate) {
    const std::string full = in_folder(candidate, cwd);
    struct stat info {};
    if (::stat(full.c_str(), &info) != 0) return errno;
    if (!S_ISREG(info.st_mode)) return EACCES;
    return ::access(full.c_str(), X_OK) == 0 ? 0 : errno;
  };
  int error = ENOENT;
  if (program.find('/') != std::string::npos) {
    file = program;
    error = check(program);
    return error == 0 ? std::error_code() : system_error(error);
  }
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    begin = end + 1;
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    const int result = check(candidate);
    if (result == 0) {
      file = candidate;
      return {};
    }
    if (result == EACCES) error = EACCES;  // remembered, as execvp does, but the search goes on
  }
  return system_error(error);
}

}  // namespace hvdrun
