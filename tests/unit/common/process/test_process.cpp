#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/process/process.h"
#include "common/process/process_tree.h"
#include "common/process/stand_in.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

ExitStatus wait_for(const Process& process) {
  pollfd wait{process.pidfd.get(), POLLIN, 0};
  REQUIRE(::poll(&wait, 1, 10'000) == 1);
  ExitStatus status;
  REQUIRE(try_reap(process, status));
  return status;
}

SpawnOptions shell(const std::string& script) {
  SpawnOptions options;
  options.path = "/bin/sh";
  options.argv = {"sh", "-c", script};
  options.env = {"PATH=/usr/bin:/bin"};
  return options;
}

TEST_CASE("exit codes and signals are told apart", "[process]") {
  Process process;
  REQUIRE_FALSE(spawn(shell("exit 7"), process));
  ExitStatus status = wait_for(process);
  CHECK_FALSE(status.signaled);
  CHECK(status.value == 7);

  REQUIRE_FALSE(spawn(shell("kill -SEGV $$"), process));
  status = wait_for(process);
  CHECK(status.signaled);
  CHECK(status.value == SIGSEGV);

  // The shell itself: what it has forked would live on, with the output that the test was given.
  REQUIRE_FALSE(spawn(shell("exec sleep 100"), process));
  CHECK_FALSE(try_reap(process, status));
  send_signal(process, SIGTERM);
  CHECK(wait_for(process).value == SIGTERM);
}

TEST_CASE("a script without #! is run by /bin/sh, what is no text is not", "[process]") {
  namespace fs = std::filesystem;
  std::string folder = "/tmp/hvdrun-script-XXXXXX";
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  const auto write = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder + "/" + name, std::ios::binary) << bytes;
    ::chmod((folder + "/" + name).c_str(), 0700);
  };
  write("script", "[ \"$1 $2\" = 'a b  c' ] && [ $# = 2 ] && exit 7\n");
  write("-e", "exit 8\n");
  write("empty", "");
  write("binary", std::string("\x7f"
                              "ELF\0\0\nexit 9\n",
                              14));
  SpawnOptions options;
  options.cwd = folder;
  options.env = {"PATH=/usr/bin:/bin"};
  const auto code = [&](const std::string& path) {
    Process process;
    options.path = path;
    REQUIRE_FALSE(spawn(options, process));
    return wait_for(process).value;
  };
  options.argv = {"script", "a", "b  c"};
  CHECK(code("script") == 7);
  CHECK(code(folder + "/script") == 7);
  options.argv = {"-e"};
  CHECK(code("-e") == 8);
  CHECK(code("empty") == 0);
  Process process;
  options.path = "binary";
  CHECK(spawn(options, process) == std::errc::executable_format_error);
  fs::remove_all(folder);
}

TEST_CASE("what cannot be started is an error here, and no process", "[process]") {
  Process process;
  SpawnOptions options = shell("true");
  options.path = "/no/such/program";
  CHECK(spawn(options, process) == std::errc::no_such_file_or_directory);
  options.path = "/etc/passwd";
  CHECK(spawn(options, process) == std::errc::permission_denied);
  options = shell("true");
  options.cwd = "/no/such/folder";
  CHECK(spawn(options, process) == std::errc::no_such_file_or_directory);
  CHECK(process.pid == -1);
}

TEST_CASE("a child has the descriptors it was given and no other", "[process]") {
  int pipe_fds[2];
  // Not close-on-exec, on purpose.
  REQUIRE(::pipe(pipe_fds) == 0);  // NOLINT(android-cloexec-pipe)
  UniqueFd read_end(pipe_fds[0]);
  UniqueFd write_end(pipe_fds[1]);
  const UniqueFd leak(::open("/dev/null", O_RDONLY));  // NOLINT(android-cloexec-open): on purpose
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  SpawnOptions options;
  options.path = "/bin/ls";
  options.argv = {"ls", "/proc/self/fd"};
  options.fds = {{null.get(), 0}, {write_end.get(), 1}, {null.get(), 2}};
  Process process;
  REQUIRE_FALSE(spawn(options, process));
  write_end.reset();
  std::string text;
  char buffer[256];
  for (ssize_t got = 0; (got = ::read(read_end.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(got));
  wait_for(process);
  CHECK(text == "0\n1\n2\n3\n");  // 3 is the folder that ls itself reads
}

TEST_CASE("a program is found as execvp finds it", "[process]") {
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("hvdrun-test-" + std::to_string(::getpid()));
  fs::create_directories(folder / "bin");
  std::ofstream(folder / "bin/tool") << "#!/bin/sh\n";
  std::ofstream(folder / "plain") << "x";
  ::chmod((folder / "bin/tool").c_str(), 0755);
  std::string file;
  CHECK_FALSE(find_program("tool", "/nowhere:" + (folder / "bin").string(), "/", file));
  CHECK(file == (folder / "bin/tool").string());
  CHECK_FALSE(find_program("bin/tool", "", folder.string(), file));
  CHECK(file == "bin/tool");
  CHECK(find_program("tool", "/nowhere", "/", file) == std::errc::no_such_file_or_directory);
  CHECK(find_program("", "/bin", "/", file) == std::errc::no_such_file_or_directory);
  CHECK(find_program("./bin", "", folder.string(), file) == std::errc::permission_denied);
  fs::remove_all(folder);
}

TEST_CASE("no descendant survives, children that left the session included", "[process]") {
  REQUIRE(become_subreaper());
  Process process;
  REQUIRE_FALSE(spawn(shell("sleep 100 & setsid sleep 100 & (setsid sleep 100 &) & "
                            "trap '' TERM; kill -STOP $$; sleep 100"),
                      process));
  // Until all have started. One look is no snapshot: a child whose parent ends meanwhile may be
  // missed by it, so the next look is not asked for the same number.
  bool started = false;
  for (int i = 0; i < 20000 && !started; ++i) {
    started = living_descendants().size() >= 4;
    if (!started) ::usleep(1000);
  }
  CHECK(started);
  CHECK(kill_descendants_and_wait());
  CHECK(living_descendants().empty());
}

TEST_CASE("a process whose first thread has ended is not taken for dead", "[process]") {
  REQUIRE(become_subreaper());
  Process process;
  SpawnOptions options;
  options.path = "/usr/bin/python3";
  options.argv = {"python3", "-c",
                  "import ctypes, platform, threading, time\n"
                  "threading.Thread(target=time.sleep, args=(100,)).start()\n"
                  "ends_thread = {'x86_64': 60, 'aarch64': 93}[platform.machine()]\n"
                  "ctypes.CDLL(None).syscall(ends_thread, 0)\n"};
  REQUIRE_FALSE(spawn(options, process));
  const std::string path = "/proc/" + std::to_string(process.pid) + "/stat";
  bool thread_ended = false;
  for (int i = 0; i < 20000 && !thread_ended; ++i) {
    std::ifstream file(path);
    std::string stat;
    std::getline(file, stat);
    thread_ended = stat.find(") Z ") != std::string::npos;
    if (!thread_ended) ::usleep(1000);
  }
  REQUIRE(thread_ended);
  CHECK(living_descendants() == std::vector<pid_t>{process.pid});
  CHECK(kill_descendants_and_wait());
  CHECK(living_descendants().empty());
}

TEST_CASE("children are known until they are reaped", "[process]") {
  CHECK_FALSE(has_children());
  Process process;
  REQUIRE_FALSE(spawn(shell("exec sleep 100"), process));
  CHECK(has_children());
  send_signal(process, SIGKILL);
  pollfd ended{process.pidfd.get(), POLLIN, 0};
  REQUIRE(::poll(&ended, 1, 10'000) == 1);
  CHECK(has_children());
  wait_for(process);
  CHECK_FALSE(has_children());
}

TEST_CASE("of several children only those named are killed, with what is below them", "[process]") {
  REQUIRE(become_subreaper());
  Process named;
  Process other;
  REQUIRE_FALSE(spawn(shell("sleep 100 & sleep 100 & wait"), named));
  REQUIRE_FALSE(spawn(shell("sleep 100 & wait"), other));
  const auto wait_below = [](const Process& process, std::size_t count) {
    for (int i = 0; i < 20000 && living_below(process.pid).size() != count; ++i) ::usleep(1000);
    return living_below(process.pid);
  };
  REQUIRE(wait_below(named, 2).size() == 2);
  const std::vector<pid_t> below_other = wait_below(other, 1);
  REQUIRE(below_other.size() == 1);
  CHECK(kill_children_and_wait({named.pid, -1}));
  CHECK(living_descendants() == std::vector<pid_t>{other.pid, below_other.front()});
  CHECK(kill_children_and_wait({named.pid, other.pid}));
  CHECK(kill_descendants_and_wait());
}

// In a process of its own, which a process with children becomes.
int status_of_stand_in(void (*work)(int parent)) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    const pid_t foreign = ::fork();
    if (foreign == 0) {
      ::pause();
      ::_exit(0);
    }
    const UniqueFd parent = go_on_in_child();
    // The parent's child is none of ours, and not ended with us.
    const bool ok = parent && !has_children() && ::kill(foreign, SIGKILL) == 0;
    if (ok) work(parent.get());
    ::_exit(99);
  }
  int status = 0;
  return ::waitpid(pid, &status, 0) == pid ? status : -1;
}

TEST_CASE("who stands in for a process ends as it does", "[process]") {
  const int code = status_of_stand_in([](int) { ::_exit(7); });
  CHECK((WIFEXITED(code) && WEXITSTATUS(code) == 7));
  const int killed = status_of_stand_in([](int) { ::raise(SIGKILL); });
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
  const int ended = status_of_stand_in([](int) {
    ::signal(SIGTERM, SIG_DFL);  // the test's program has a handler
    ::raise(SIGTERM);
  });
  CHECK((WIFSIGNALED(ended) && WTERMSIG(ended) == SIGTERM));
}

TEST_CASE("that the process which stands in is gone can be seen", "[process]") {
  int fds[2];
  REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
  static int to_test = -1;
  to_test = fds[1];
  const int killed = status_of_stand_in([](int parent) {
    pollfd gone{parent, POLLIN, 0};
    const bool before = ::poll(&gone, 1, 0) == 0;
    ::kill(::getppid(), SIGKILL);
    const char ok = before && ::poll(&gone, 1, 10'000) == 1 ? 'y' : 'n';
    (void)!::write(to_test, &ok, 1);
    ::_exit(0);
  });
  CHECK((WIFSIGNALED(killed) && WTERMSIG(killed) == SIGKILL));
  char ok = 0;
  CHECK(::read(fds[0], &ok, 1) == 1);
  CHECK(ok == 'y');
  ::close(fds[0]);
  ::close(fds[1]);
}

}  // namespace
}  // namespace hvdrun
