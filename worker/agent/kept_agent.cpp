#include "worker/agent/kept_agent.h"

#include <algorithm>
#include <cstdint>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <dirent.h>

#include "common/process/process.h"

namespace hvdrun {
namespace {

constexpr std::string_view kAgentPrefix = "agent-";
constexpr std::size_t kHashDigits = 32;
constexpr std::size_t kKeptSize = kAgentPrefix.size() + kHashDigits;
constexpr int kMaxEntries = 10'000;  // of a folder that are looked at
// Until it is looked whether a toucher has ended: in a PID namespace its zombie keeps the agent's.
constexpr std::chrono::milliseconds kReapPause{1'000};

// "agent-HASH", or that with a dot and more behind it.
bool is_agent_name(std::string_view name) {
  if (!name.starts_with(kAgentPrefix) || name.size() < kKeptSize) return false;
  const std::string_view hash = name.substr(kAgentPrefix.size(), kHashDigits);
  if (hash.find_first_not_of("0123456789abcdef") != hash.npos) return false;
  return name.size() == kKeptSize || (name[kKeptSize] == '.' && name.size() > kKeptSize + 1);
}

// For a kept file only a write or a touch by somebody counts. A name that a launch has made for one
// has the same times, however old; but the making of it is a change of the file.
std::int64_t last_use(const struct stat& info, bool is_kept) {
  return is_kept ? info.st_mtime : std::max(info.st_mtime, info.st_ctime);
}

void touch(const std::string& file) { ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0); }

struct CloseAgents {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

}  // namespace

std::string kept_agent(const std::string& program) {
  const auto slash = program.rfind('/');
  if (slash == std::string::npos || !is_agent_name(std::string_view(program).substr(slash + 1)))
    return {};
  return program.substr(0, slash + 1 + kKeptSize);
}

void settle_agent(const std::string& program) {
  const std::string kept = kept_agent(program);
  if (kept.empty()) return;
  if (program != kept) ::unlink(program.c_str());
  touch(kept);
  remove_old_agents(kept);
}

void remove_old_agents(const std::string& own) {
  struct stat info {};
  if (::stat(own.c_str(), &info) != 0) return;
  const auto oldest =
      info.st_mtime - std::chrono::duration_cast<std::chrono::seconds>(kKeepAgent).count();
  const std::unique_ptr<DIR, CloseAgents> folder(
      ::opendir(own.substr(0, own.rfind('/') + 1).c_str()));
  if (!folder) return;
  const int fd = ::dirfd(folder.get());
  for (int i = 0; i < kMaxEntries; ++i) {
    const dirent* const entry = ::readdir(folder.get());  // NOLINT(concurrency-mt-unsafe): own DIR
    if (entry == nullptr) return;
    const std::string_view name = entry->d_name;
    if (!is_agent_name(name) || ::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
        last_use(info, name.size() == kKeptSize) < oldest)
      ::unlinkat(fd, entry->d_name, 0);
  }
}

AgentTouch::AgentTouch(std::string file, std::chrono::milliseconds every, Clock::time_point now)
    : file_(std::move(file)), every_(every), next_(now + every) {}

int AgentTouch::timeout(Clock::time_point now) const {
  if (file_.empty()) return -1;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(next_ - now);
  if (toucher_ > 0) left = std::min(left, kReapPause);
  return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

void AgentTouch::tick(Clock::time_point now) {
  if (toucher_ > 0 && ::waitpid(toucher_, nullptr, WNOHANG) != 0) toucher_ = -1;
  if (file_.empty() || now < next_) return;
  next_ = now + every_;
  if (toucher_ > 0) return;  // the one before waits for its file system still
  toucher_ = ::fork();
  if (toucher_ != 0) return;
  close_all_but({});  // it must not hold what the guard holds
  touch(file_);
  ::_exit(0);
}

}  // namespace hvdrun
