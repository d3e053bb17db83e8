#include "common/process/process_tree.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <signal.h>
#include <sstream>
#include <string>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dirent.h>
#include <time.h>

#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

std::string read_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char buffer[4096];
  while (fd) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// Children are kept per thread; a process may have forked from any of its threads.
std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  DIR* const dir = ::opendir(tasks.c_str());
  if (dir == nullptr) return children;
  while (const dirent* const entry = ::readdir(dir)) {  // NOLINT(concurrency-mt-unsafe): own DIR
    if (entry->d_name[0] == '.') continue;
    const std::string text = read_file(tasks + "/" + entry->d_name + "/children");
    const char* at = text.data();
    const char* const end = at + text.size();
    while (at < end) {
      pid_t child = 0;
      const auto [next, ec] = std::from_chars(at, end, child);
      if (ec != std::errc()) break;
      children.push_back(child);
      at = next + 1;
    }
  }
  ::closedir(dir);
  return children;
}

// One whose first thread has ended (pthread_exit) is called one too, but lives while others run.
bool is_zombie(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = stat.rfind(')');  // a name may hold blanks and parentheses
  if (name_end == std::string::npos) return true;
  std::istringstream fields(stat.substr(name_end + 1));
  constexpr int kThreads = 20;  // the field; the state is the third
  std::string field;
  for (int i = 3; i <= kThreads && fields >> field; ++i)
    if (i == 3 && field != "Z") return false;
  return field == "1" || field == "0";
}

void collect_below(pid_t pid, std::vector<pid_t>& found) {
  for (const pid_t child : children_of(pid)) {
    if (!is_zombie(child)) found.push_back(child);
    collect_below(child, found);
  }
}

void pause_1ms() {
  const timespec pause{0, 1'000'000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

std::size_t kill_below(pid_t pid, const std::vector<pid_t>& spare) {
  std::size_t alive = 0;
  for (const pid_t child : children_of(pid)) {
    if (std::find(spare.begin(), spare.end(), child) != spare.end()) continue;
    if (is_zombie(child)) continue;
    ::kill(child, SIGSTOP);
    alive += 1 + kill_below(child, spare);
    ::kill(child, SIGKILL);
  }
  return alive;
}

bool become_subreaper() { return ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0; }

bool has_children() {
  siginfo_t info{};
  const int any = WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WALL;
  return ::waitid(P_ALL, 0, &info, any) == 0 || errno != ECHILD;
}

std::vector<pid_t> living_descendants() { return living_below(::getpid()); }

std::vector<pid_t> living_below(pid_t pid) {
  std::vector<pid_t> found;
  collect_below(pid, found);
  return found;
}

std::size_t kill_descendants(const std::vector<pid_t>& spare) {
  return kill_below(::getpid(), spare);
}

void kill_session(pid_t session) {
  constexpr int kPasses = 10;
  for (int pass = 0; pass < kPasses; ++pass) {
    bool found = false;
    for (const pid_t pid : living_descendants()) {
      if (::getsid(pid) != session || pid == session) continue;
      ::kill(pid, SIGKILL);
      found = true;
    }
    if (!found) return;
    pause_1ms();
  }
}

bool kill_descendants_and_wait(int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    kill_descendants();
    pid_t reaped = 0;
    while ((reaped = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    // Only the kernel's word counts: a scan of /proc misses who changes its parent meanwhile.
    if (reaped < 0 && errno == ECHILD) return true;
    pause_1ms();
  }
  return false;
}

bool kill_children_and_wait(std::vector<pid_t> children, int passes) {
  for (int pass = 0; pass < passes; ++pass) {
    // First: the number of one that was reaped may be another's by now.
    std::erase_if(children, [](pid_t child) {
      return child <= 0 || ::waitpid(child, nullptr, WNOHANG) != 0;
    });
    if (children.empty()) return true;
    for (const pid_t child : children) {
      ::kill(child, SIGSTOP);
      if (kill_below(child) == 0) ::kill(child, SIGKILL);
    }
    pause_1ms();
  }
  for (const pid_t child : children) ::kill(child, SIGKILL);
  return false;
}

}  // namespace hvdrun
