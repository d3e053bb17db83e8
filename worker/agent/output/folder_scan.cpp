#include "worker/agent/output/folder_scan.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <dirent.h>

#include "common/base/fault_text.h"
#include "common/base/printable.h"
#include "common/wire/file_path.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kNanoseconds = 1'000'000'000;

std::uint64_t nanoseconds(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kNanoseconds +
         static_cast<std::uint64_t>(time.tv_nsec);
}

FileStamp make_stamp(const struct stat& info) {
  return {info.st_ino, static_cast<std::uint64_t>(info.st_size), nanoseconds(info.st_mtim),
          nanoseconds(info.st_ctim)};
}

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

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

}  // namespace

FileStamp stamp_of(int file) {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? make_stamp(info) : FileStamp{};
}

void FolderScan::look(std::chrono::steady_clock::time_point now, bool last) {
  last_ = last;
  seen_ = 0;
  skipped_ = 0;
  ready_.clear();
  for (auto& [path, known] : files_) known.is_there = false;
  const UniqueFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder) walk(folder.get(), "", 1, now, last);
  std::sort(ready_.begin(), ready_.end());
  std::erase_if(files_, [](const auto& entry) { return !entry.second.is_there; });
}

void FolderScan::walk(int folder, const std::string& prefix, std::size_t depth,
                      std::chrono::steady_clock::time_point now, bool last) {
  const int own = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, CloseFolder> entries(own < 0 ? nullptr : ::fdopendir(own));
  if (!entries) return skip("a folder that cannot be read", prefix);
  while (const dirent* const entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string path = prefix + name;
    if (++seen_ > most_)
      return skip("more than " + std::to_string(most_) + " files and folders", path);
    if (!is_plain_path(path)) {
      skip("a name that is too long, too deep, with control characters, or of hvdrun", path);
      continue;
    }
    struct stat info {};
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // it is gone
    if (S_ISREG(info.st_mode)) {
      see(path, make_stamp(info), now, last);
    } else if (!S_ISDIR(info.st_mode)) {
      remark(kind_of(info.st_mode), path);
    } else if (depth < limits::kMaxFileDepth) {
      const UniqueFd inner(
          ::openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (inner) {
        walk(inner.get(), path + "/", depth + 1, now, last);
      } else if (errno != ENOENT) {
        skip("a folder that cannot be read", path);
      }
    }
  }
}

void FolderScan::see(const std::string& path, const FileStamp& stamp,
                     std::chrono::steady_clock::time_point now, bool last) {
  const auto [at, is_new] = files_.try_emplace(path);
  Known& known = at->second;
  known.is_there = true;
  const bool changed = is_new || known.stamp != stamp;
  if (changed) {
    known.stamp = stamp;
    known.since = now;
  }
  if (known.handled != stamp && (last || !changed)) ready_.push_back(path);
}

std::optional<ReadyFile> FolderScan::next(std::chrono::steady_clock::time_point now) {
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
    if (!last_ && now - known.since < kQuiet && is_open_for_writing(file.get())) continue;
    constexpr std::uint32_t kPermissions = 0777;
    return ReadyFile{path, std::move(file), known.stamp, info.st_mode & kPermissions};
  }
  return std::nullopt;
}

void FolderScan::brought(const ReadyFile& file) {
  const auto known = files_.find(file.path);
  if (known == files_.end()) return;
  known->second.handled = file.stamp;
  known->second.has_failed = false;
}

void FolderScan::failed(const ReadyFile& file) {
  brought(file);
  if (const auto known = files_.find(file.path); known != files_.end())
    known->second.has_failed = true;
}

std::uint32_t FolderScan::left() const {
  const auto is_left = [](const auto& entry) {
    return entry.second.has_failed || entry.second.handled != entry.second.stamp;
  };
  return skipped_ +
         static_cast<std::uint32_t>(std::count_if(files_.begin(), files_.end(), is_left));
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
