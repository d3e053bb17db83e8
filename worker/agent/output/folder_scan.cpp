#include "worker/agent/output/folder_scan.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/base/fault_text.h"
#include "common/base/printable.h"
#include "common/wire/file_path.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kNanoseconds = 1'000'000'000;
constexpr int kEntriesPerClock = 64;  // that are seen before it is looked at the time
constexpr const char* kUnreadable = "a folder that cannot be read";
constexpr const char* kOddName = "a name that is too long, too deep, or has control characters";

std::uint64_t nanoseconds(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kNanoseconds +
         static_cast<std::uint64_t>(time.tv_nsec);
}

FileStamp make_stamp(const struct stat& info) {
  return {info.st_ino, static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

// The kernel grants a lease for reading only where nobody can write. It is given back at once. Who
// opens the file in between waits as long, and the signal of it is one that changes nothing. Where
// a file system has no leases this is not known.
bool is_open_for_writing(int file) {
  ::fcntl(file, F_SETSIG, SIGURG);
  if (::fcntl(file, F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  ::fcntl(file, F_SETLEASE, F_UNLCK);
  return false;
}

const char* kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a link";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

int open_folder(int parent, const char* name) {
  return ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}  // namespace

FileStamp stamp_of(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? make_stamp(info) : FileStamp{};
}

void FolderScan::begin_look(Clock::time_point now, bool last) {
  now_ = now;
  last_ = last;
  seen_ = 0;
  skipped_ = 0;
  ready_.clear();
  reading_.clear();
  for (auto& [path, known] : files_) known.is_there = false;
  enter(AT_FDCWD, folder_, "");
}

void FolderScan::enter(int parent, const std::string& name, const std::string& prefix) {
  const int folder = open_folder(parent, name.c_str());
  const bool is_gone = folder < 0 && errno == ENOENT;
  Reading next{std::unique_ptr<DIR, CloseFolder>(folder < 0 ? nullptr : ::fdopendir(folder)),
               prefix};
  if (next.entries) return reading_.push_back(std::move(next));
  if (folder >= 0) ::close(folder);
  if (!is_gone) skip(kUnreadable, prefix);
}

bool FolderScan::look_on(Clock::time_point until) {
  for (int turn = 1; !reading_.empty(); ++turn) {
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the folder is this object's alone
    const dirent* const entry = ::readdir(reading_.back().entries.get());
    if (entry != nullptr) {
      // The one that is read may be another one afterwards.
      const std::string name = entry->d_name;
      if (name != "." && name != "..") see(reading_.back(), name);
    } else {
      if (errno != 0) skip(kUnreadable, reading_.back().prefix);
      reading_.pop_back();
    }
    if (turn % kEntriesPerClock == 0 && Clock::now() >= until) return false;
  }
  std::sort(ready_.begin(), ready_.end());
  std::erase_if(files_, [](const auto& entry) { return !entry.second.is_there; });
  return true;
}

void FolderScan::see(const Reading& in, const std::string& name) {
  const std::string path = in.prefix + name;
  if (++seen_ > most_) {
    skip("more than " + std::to_string(most_) + " files and folders", path);
    return reading_.clear();
  }
  if (name.starts_with(kUnderWayPrefix)) return;  // of an hvdrun that is a rank
  if (!is_plain_path(path)) return skip(kOddName, path);
  struct stat info {};
  const int folder = ::dirfd(in.entries.get());
  if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) skip("a file that cannot be seen", path);
    return;
  }
  if (S_ISREG(info.st_mode)) return see_file(path, make_stamp(info));
  if (!S_ISDIR(info.st_mode)) return remark(kind_of(info.st_mode), path);
  if (reading_.size() == limits::kMaxFileDepth) return skip(kOddName, path);
  enter(folder, name, path + "/");
}

void FolderScan::see_file(const std::string& path, const FileStamp& stamp) {
  const auto [at, is_new] = files_.try_emplace(path);
  Known& known = at->second;
  known.is_there = true;
  const bool changed = is_new || known.stamp != stamp;
  if (changed) {
    known.stamp = stamp;
    known.since = now_;
  }
  const bool is_news = known.handled != stamp || (last_ && known.was_open);
  if (is_news && (last_ || !changed)) ready_.push_back(path);
}

std::optional<ReadyFile> FolderScan::next(Clock::time_point now) {
  while (!ready_.empty()) {
    const std::string path = std::move(ready_.front());
    ready_.pop_front();
    Known& known = files_[path];
    UniqueFd file(::open((folder_ + "/" + path).c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file) {
      if (errno == ENOENT) continue;
      remark("a file that cannot be read (" + fault_text({errno, std::system_category()}) + ")",
             path);
      known.handled = known.stamp;
      known.has_failed = true;
      continue;
    }
    struct stat info {};
    // One that has changed since is looked at again.
    if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
        make_stamp(info) != known.stamp)
      continue;
    const bool is_open = is_open_for_writing(file.get());
    if (is_open && !last_ && now - known.since < kQuiet) continue;
    constexpr std::uint32_t kPermissions = 0777;
    return ReadyFile{path, std::move(file), known.stamp, info.st_mode & kPermissions, is_open};
  }
  return std::nullopt;
}

void FolderScan::brought(const ReadyFile& file) {
  const auto known = files_.find(file.path);
  if (known == files_.end()) return;
  known->second.handled = file.stamp;
  known->second.has_failed = false;
  known->second.was_open = file.is_open && !last_;
}

void FolderScan::failed(const ReadyFile& file) {
  brought(file);
  if (const auto known = files_.find(file.path); known != files_.end())
    known->second.has_failed = true;
}

std::uint32_t FolderScan::left() const {
  const auto is_left = [](const auto& entry) {
    const Known& known = entry.second;
    return known.has_failed || known.was_open || known.handled != known.stamp;
  };
  return skipped_ +
         static_cast<std::uint32_t>(std::count_if(files_.begin(), files_.end(), is_left));
}

void FolderScan::remove() {
  const UniqueFd folder(open_folder(AT_FDCWD, folder_.c_str()));
  if (folder && remove_below(folder.get(), "")) ::rmdir(folder_.c_str());
}

bool FolderScan::remove_below(int folder, const std::string& prefix) {
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseFolder> entries(own < 0 ? nullptr : ::fdopendir(own));
  if (!entries) return false;
  bool all = true;
  // NOLINTNEXTLINE(concurrency-mt-unsafe)
  while (const dirent* const entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info {};
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      const UniqueFd inner(open_folder(folder, name.c_str()));
      all = inner && remove_below(inner.get(), prefix + name + "/") &&
            ::unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 && all;
      continue;
    }
    const auto known = files_.find(prefix + name);
    const bool has_bytes = S_ISREG(info.st_mode) && !name.starts_with(kUnderWayPrefix);
    const bool may_go = !has_bytes || (known != files_.end() && !known->second.has_failed &&
                                       known->second.handled == make_stamp(info));
    all = may_go && ::unlinkat(folder, name.c_str(), 0) == 0 && all;
  }
  return all;
}

std::vector<std::string> FolderScan::take_remarks() { return std::exchange(remarks_, {}); }

void FolderScan::skip(const std::string& kind, const std::string& path) {
  ++skipped_;
  remark(kind, path);
}

void FolderScan::remark(const std::string& kind, const std::string& path) {
  if (told_.insert(kind).second)
    remarks_.push_back(kind + " below --sync-dir (" + printable(path.empty() ? "." : path) +
                       ", the first): it is not brought");
}

}  // namespace hvdrun
