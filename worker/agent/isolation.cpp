#include "worker/agent/isolation.h"

#include <cerrno>
#include <fcntl.h>
#include <fstream>
#include <sched.h>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>
#include <string.h>
#include <time.h>

namespace hvdrun {
namespace {

constexpr const char* kPrefix = "hvdrun-";

[[noreturn]] void give_up(const char* option, const std::string& what) {
  throw std::runtime_error(std::string("--isolation ") + option + ": " + what + ": " +
                           ::strerror(errno) +  // NOLINT(concurrency-mt-unsafe): one thread
                           "; --isolation auto does without");
}

bool write_text(const std::string& path, const std::string& text) {
  const UniqueFd file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  return file && ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

// Where this process stands in the unified hierarchy; empty when there is none.
std::string own_cgroup() {
  std::string mount;
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line) && mount.empty();) {
    std::istringstream fields(line);
    std::string device;
    std::string folder;
    std::string type;
    fields >> device >> folder >> type;
    if (type == "cgroup2") mount = folder;
  }
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);)
    if (line.starts_with("0::") && !mount.empty()) return mount + line.substr(3);
  return "";
}

// Those that crashed jobs left behind. One that is in use cannot be removed, which is the point.
void remove_stale(const std::string& parent) {
  DIR* const dir = ::opendir(parent.c_str());
  if (dir == nullptr) return;
  while (const dirent* const entry = ::readdir(dir))  // NOLINT(concurrency-mt-unsafe): own DIR
    if (std::string(entry->d_name).starts_with(kPrefix))
      ::rmdir((parent + "/" + entry->d_name).c_str());
  ::closedir(dir);
}

void pause_ms(long ms) {
  const timespec pause{0, ms * 1'000'000};
  ::nanosleep(&pause, nullptr);
}

}  // namespace

IsolationNet::IsolationNet(Isolation isolation, const std::string& name)
    : isolation_(isolation), owner_(::getpid()) {
  if (isolation_ == Isolation::cgroup) make_cgroup(name);
  if (isolation_ == Isolation::pidns) make_pid_namespace();
}

void IsolationNet::make_cgroup(const std::string& name) {
  const std::string parent = own_cgroup();
  if (parent.empty()) {
    errno = ENOENT;
    give_up("cgroup", "no cgroup2 file system");
  }
  remove_stale(parent);
  const std::string folder = parent + (parent.ends_with('/') ? "" : "/") + kPrefix + name;
  if (::mkdir(folder.c_str(), 0755) != 0) give_up("cgroup", folder);
  cgroup_ = folder;
  if (::access((folder + "/cgroup.kill").c_str(), W_OK) != 0)
    give_up("cgroup", folder + "/cgroup.kill (Linux 5.14 or newer)");
}

void IsolationNet::make_pid_namespace() {
  // Without the right to make one directly, inside a user namespace that maps only this user.
  if (::unshare(CLONE_NEWPID) == 0) return;
  if (errno != EPERM) give_up("pidns", "unshare");
  const auto user = std::to_string(::geteuid());
  const auto group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)
    give_up("pidns", "this system forbids user namespaces");
  if (!write_text("/proc/self/setgroups", "deny") ||
      !write_text("/proc/self/uid_map", user + " " + user + " 1") ||
      !write_text("/proc/self/gid_map", group + " " + group + " 1"))
    give_up("pidns", "the map of the user namespace");
}

void IsolationNet::enter() {
  const auto join = [this] { return write_text(cgroup_ + "/cgroup.procs", "0"); };
  // Another job that begins now may have taken the group, still empty, for a left-over.
  if (isolation_ == Isolation::cgroup && !join() &&
      (errno != ENOENT || ::mkdir(cgroup_.c_str(), 0755) != 0 || !join()))
    give_up("cgroup", cgroup_ + "/cgroup.procs");
  if (isolation_ != Isolation::pidns) return;
  // The process numbers of /proc must be those of the namespace, and only in here.
  if (::unshare(CLONE_NEWNS) != 0 ||
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0)
    give_up("pidns", "mount /proc");
}

IsolationNet::~IsolationNet() {
  if (cgroup_.empty() || ::getpid() != owner_) return;
  write_text(cgroup_ + "/cgroup.kill", "1");
  // A killed process leaves the group a moment later.
  for (int i = 0; i < 500 && ::rmdir(cgroup_.c_str()) != 0 && errno == EBUSY; ++i) pause_ms(2);
}

}  // namespace hvdrun
