#include "tests/integration/helpers/run_program.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace hvdrun::test {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

int exit_code_of_status(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Starts it with these descriptors as 0 to 2.
pid_t start(const RunOptions& options, int in, int out, int err) {
  std::vector<std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const bool replaced = std::any_of(options.env.begin(), options.env.end(), [&](const auto& e) {
      const std::size_t size = e.first.size();
      return text.size() > size && text[size] == '=' && text.compare(0, size, e.first) == 0;
    });
    if (!replaced) env.push_back(text);
  }
  for (const auto& [name, value] : options.env) env.emplace_back(name).append("=").append(value);
  std::vector<char*> argv;
  std::vector<char*> envp;
  argv.reserve(options.args.size() + 1);
  envp.reserve(env.size() + 1);
  for (const auto& arg : options.args) argv.push_back(const_cast<char*>(arg.c_str()));
  for (const auto& entry : env) envp.push_back(const_cast<char*>(entry.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (!options.cwd.empty()) posix_spawn_file_actions_addchdir_np(&actions, options.cwd.c_str());
  // A shell starts what it puts into the background with INT and QUIT ignored, and we may have
  // been.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t all;
  sigfillset(&all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigdefault(&attributes, &all);
  pid_t pid = -1;
  const int rc = posix_spawnp(&pid, argv[0], &actions, &attributes, argv.data(), envp.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (rc != 0) throw std::system_error(rc, std::system_category(), options.args.front());
  return pid;
}

std::string read_whole(const fs::path& path) {
  // Not through iterators: those throw when a process ends while its file is read.
  const std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

RunResult run(const RunOptions& options) {
  int in[2];
  int out[2];
  int err[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::system_category(), "pipe");
  const auto begin = Clock::now();
  const pid_t pid = start(options, in[0], out[1], err[1]);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  if (!options.input.empty() && write(in[1], options.input.data(), options.input.size()) !=
                                    static_cast<ssize_t>(options.input.size()))
    throw std::runtime_error("the input does not fit a pipe");
  close(in[1]);
  RunResult result;
  pollfd waits[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  bool late = false;
  while (waits[0].fd >= 0 || waits[1].fd >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(begin + options.limit - Clock::now());
    if (left.count() <= 0 || poll(waits, 2, static_cast<int>(left.count())) <= 0) {
      late = true;
      break;
    }
    for (int i = 0; i < 2; ++i) {
      if (waits[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t got = read(waits[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        (i == 0 ? result.out : result.err).append(buffer, static_cast<std::size_t>(got));
      } else {
        waits[i].fd = -1;
      }
    }
  }
  int status = 0;
  // Both outputs are closed: what is left to wait for is the exit itself.
  while (!late && waitpid(pid, &status, WNOHANG) == 0) {
    late = Clock::now() > begin + options.limit;
    usleep(500);
  }
  if (late) {
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
  }
  close(out[0]);
  close(err[0]);
  result.exit_code = late ? -1 : exit_code_of_status(status);
  result.time = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  return result;
}

RunResult hvdrun(std::vector<std::string> args, RunOptions options) {
  args.insert(args.begin(), build_path("hvdrun"));
  options.args = std::move(args);
  return run(options);
}

Background::Background(const RunOptions& options) {
  int out[2];
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null < 0 || pipe2(out, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::system_category(), "pipe");
  pid_ = start(options, null, out[1], out[1]);
  close(null);
  close(out[1]);
  output_ = out[0];
}

Background::~Background() {
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(output_);
}

std::string Background::wait_for_output(const std::string& text, std::chrono::seconds limit,
                                        std::size_t times) {
  const auto deadline = Clock::now() + limit;
  const auto has_come = [&] {
    std::size_t found = 0;
    for (auto at = text_.find(text); at != std::string::npos && found < times;
         at = text_.find(text, at + 1))
      ++found;
    return found == times;
  };
  while (!has_come()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wait_in{output_, POLLIN, 0};
    char buffer[4096];
    ssize_t got = 0;
    if (left.count() <= 0 || poll(&wait_in, 1, static_cast<int>(left.count())) <= 0 ||
        (got = read(output_, buffer, sizeof buffer)) <= 0)
      throw std::runtime_error("'" + text + "' did not come; there was: " + text_);
    text_.append(buffer, static_cast<std::size_t>(got));
  }
  return text_;
}

std::size_t Background::unread() const {
  int size = 0;
  if (ioctl(output_, FIONREAD, &size) != 0) throw std::runtime_error("FIONREAD");
  return static_cast<std::size_t>(size);
}

bool Background::has_ended() {
  int status = 0;
  if (!reaped_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    reaped_ = true;
    exit_code_ = exit_code_of_status(status);
  }
  return reaped_;
}

int Background::wait_unread(std::chrono::milliseconds limit) {
  for (const auto deadline = Clock::now() + limit; !has_ended(); usleep(500))
    if (Clock::now() > deadline) return -1;
  return exit_code_;
}

int Background::wait(std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  fcntl(output_, F_SETFL, O_NONBLOCK);
  const auto read_all = [this] {
    char buffer[4096];
    for (ssize_t got = 0; (got = read(output_, buffer, sizeof buffer)) > 0;)
      text_.append(buffer, static_cast<std::size_t>(got));
  };
  while (!reaped_) {
    read_all();
    if (has_ended()) {
      read_all();
    } else if (Clock::now() > deadline) {
      return -1;
    } else {
      usleep(500);
    }
  }
  return exit_code_;
}

std::vector<ProcessInfo> all_processes() {
  std::vector<ProcessInfo> found;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    ProcessInfo info;
    const char* const end = name.data() + name.size();
    if (std::from_chars(name.data(), end, info.pid).ptr != end || info.pid == getpid()) continue;
    info.environ = '\0' + read_whole(entry.path() / "environ");
    const std::string stat = read_whole(entry.path() / "stat");
    const auto paren = stat.rfind(')');
    if (paren == std::string::npos || stat[paren + 2] == 'Z') continue;
    info.parent = std::atoi(stat.c_str() + paren + 4);
    info.name = read_whole(entry.path() / "comm");
    info.name.erase(info.name.find_last_not_of('\n') + 1);
    info.cmdline = read_whole(entry.path() / "cmdline");
    std::replace(info.cmdline.begin(), info.cmdline.end(), '\0', ' ');
    found.push_back(std::move(info));
  }
  return found;
}

std::vector<ProcessInfo> processes_with(const std::string& marker) {
  std::vector<ProcessInfo> found = all_processes();
  std::erase_if(found, [&](const ProcessInfo& info) {
    return info.environ.find('\0' + marker + '\0') == std::string::npos;
  });
  return found;
}

std::vector<ProcessInfo> wait_for_processes(const std::string& marker,
                                            const std::map<std::string, int>& names,
                                            std::chrono::seconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    auto found = processes_with(marker);
    std::map<std::string, int> have;
    for (const auto& info : found) ++have[info.name];
    if (have == names || Clock::now() > deadline) return found;
    usleep(2000);
  }
}

std::vector<ProcessInfo> wait_until_gone(const std::string& marker,
                                         std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  for (;;) {
    auto found = processes_with(marker);
    if (found.empty() || Clock::now() > deadline) return found;
    usleep(2000);
  }
}

std::pair<std::string, std::string> fresh_marker() {
  static int count = 0;
  return {"TEST_MARKER", std::to_string(getpid()) + "-" + std::to_string(++count)};
}

bool is_sanitized() {
  const char* const sanitize = std::getenv("HVD_TEST_SANITIZE");  // NOLINT(concurrency-mt-unsafe)
  return sanitize != nullptr && std::string(sanitize) != "none";
}

std::string build_path(const std::string& file) {
  const char* const root = std::getenv("HVD_TEST_BUILD");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr) throw std::runtime_error("run this through meson test: no HVD_TEST_BUILD");
  return std::string(root) + "/" + file;
}

std::string worker_probe() { return build_path("tests/integration/programs/worker_probe"); }

std::string source_path(const std::string& file) {
  const char* const root = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  if (root == nullptr) throw std::runtime_error("run this through meson test: no HVD_TEST_SOURCE");
  return std::string(root) + "/" + file;
}

TempFolder::TempFolder() {
  std::string pattern = fs::temp_directory_path() / "hvdrun-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr)
    throw std::system_error(errno, std::system_category(), pattern);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempFolder::file(const std::string& name, const std::string& contents) const {
  std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

}  // namespace hvdrun::test
