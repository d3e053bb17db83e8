#include "cli/output/synced_files.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "cli/text/user_errors.h"
#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/base/printable.h"
#include "common/wire/file_path.h"

namespace hvdrun {
namespace {

// A full disk fails every file: so many are named, and so many that two hosts write.
constexpr std::uint32_t kNamed = 4;
constexpr mode_t kEverybody = 0777;
constexpr std::size_t kMaxRemark = 600;  // bytes
constexpr std::uint64_t kNanoseconds = 1'000'000'000;

std::error_code last_error() { return {errno, std::system_category()}; }

std::uint64_t nanoseconds(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kNanoseconds +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// As file systems take it for their times.
std::uint64_t nanoseconds_of_clock() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME_COARSE, &time);
  return nanoseconds(time);
}

std::string further(std::uint32_t nth) {
  return nth < kNamed ? "" : " (further ones are not named)";
}

// The folder of a path below `root`, made where it is not there; and the file's own name.
std::error_code open_parent(int root, const std::string& path, UniqueFd& parent,
                            std::string& name) {
  parent.reset(::fcntl(root, F_DUPFD_CLOEXEC, 0));
  if (!parent) return last_error();
  std::string_view rest = path;
  for (auto slash = rest.find('/'); slash != rest.npos; slash = rest.find('/')) {
    const std::string folder(rest.substr(0, slash));
    rest.remove_prefix(slash + 1);
    if (::mkdirat(parent.get(), folder.c_str(), kEverybody) != 0 && errno != EEXIST)
      return last_error();
    UniqueFd inner(
        ::openat(parent.get(), folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!inner) return last_error();
    parent = std::move(inner);
  }
  name = rest;
  return {};
}

}  // namespace

SyncedFiles::SyncedFiles(std::string folder, const std::string& where, const std::string& job_id)
    : folder_(std::move(folder)),
      part_prefix_(std::string(kUnderWayPrefix) + job_id + "-"),
      began_ns_(nanoseconds_of_clock()) {
  std::error_code ec = open_root();
  if (!ec && ::access(folder_.c_str(), W_OK | X_OK) != 0) ec = last_error();
  if (ec)
    throw UsageError(where + ": " + printable(folder_) + ": " + fault_text(ec) +
                     "; name a folder that can be written to");
}

SyncedFiles::~SyncedFiles() {
  for (const auto& [host, of] : hosts_) ::unlinkat(root_.get(), part_name(host).c_str(), 0);
}

std::error_code SyncedFiles::open_root() {
  std::error_code ec;
  std::filesystem::create_directories(folder_, ec);
  if (!ec) root_.reset(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!ec && !root_) ec = last_error();
  return ec;
}

void SyncedFiles::set_job(NameOf name_of, Say say) {
  name_of_ = std::move(name_of);
  say_ = std::move(say);
}

std::optional<std::string> SyncedFiles::take(std::uint32_t host, const Frame& frame) {
  const auto is = [&frame]<class M>(M& message) {
    return frame.type == M::kType && !decode(frame.payload, message);
  };
  FileFolder folder;
  FileBegin first;
  FileData data;
  FileEnd last;
  FileRemark remark;
  if (is(folder)) {
    if (!folder.done) {
      hosts_[host].folder = folder.path;
    } else if (const auto known = hosts_.find(host); known != hosts_.end()) {
      end(host, known->second, folder.left);
    }
    return "";
  }
  const auto known = hosts_.find(host);
  if (known == hosts_.end()) return std::nullopt;
  Host& of = known->second;
  if (is(remark)) {
    say_(name_of_(host) + ": " + printable(remark.text, kMaxRemark));
    return "";
  }
  if (is(first)) {
    if (of.file || !is_plain_path(first.path)) return std::nullopt;
    begin(host, of, std::move(first));
    return "";
  }
  if (!of.file) return std::nullopt;
  if (is(data)) {
    if (data.bytes.empty() || data.bytes.size() > of.file->size - of.size) return std::nullopt;
    append(of, data.bytes);
    return encode_frame(FileCredit{static_cast<std::uint32_t>(data.bytes.size())});
  }
  if (!is(last) || (last.whole && of.size != of.file->size)) return std::nullopt;
  const bool kept = last.whole && keep(host, of);
  ::unlinkat(root_.get(), part_name(host).c_str(), 0);
  of.part.reset();
  of.file.reset();
  return last.whole ? encode_frame(FileKept{kept}) : "";
}

std::string SyncedFiles::part_name(std::uint32_t host) const {
  return part_prefix_ + std::to_string(host);
}

void SyncedFiles::begin(std::uint32_t host, Host& of, FileBegin message) {
  of.file = std::move(message);
  of.size = 0;
  of.trouble = open_part(host, of);
  // A rank of this machine may have removed the folder, and made another.
  if (of.trouble != std::errc::no_such_file_or_directory) return;
  of.trouble = open_root();
  if (!of.trouble) of.trouble = open_part(host, of);
}

std::error_code SyncedFiles::open_part(std::uint32_t host, Host& of) {
  const std::string part = part_name(host);
  ::unlinkat(root_.get(), part.c_str(), 0);
  constexpr mode_t kOwn = 0600;
  of.part.reset(::openat(root_.get(), part.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwn));
  return of.part ? std::error_code() : last_error();
}

void SyncedFiles::append(Host& of, std::string_view bytes) {
  of.size += bytes.size();
  while (!of.trouble && !bytes.empty()) {
    const ssize_t sent = ::write(of.part.get(), bytes.data(), bytes.size());
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      of.trouble = last_error();
    }
  }
}

// The agent removes its own copy then, so the bytes must be on the disk, and the disk's faults
// known.
bool SyncedFiles::keep(std::uint32_t host, Host& of) {
  if (!of.trouble && ::fsync(of.part.get()) != 0) of.trouble = last_error();
  if (!of.trouble) {
    const timespec time{static_cast<time_t>(of.file->time_ns / kNanoseconds),
                        static_cast<long>(of.file->time_ns % kNanoseconds)};
    const timespec times[] = {time, time};
    ::futimens(of.part.get(), times);
    ::fchmod(of.part.get(), of.file->mode & kEverybody);
    of.trouble = put_in_place(host, *of.file);
  }
  if (!of.trouble) return true;
  if (++troubles_ <= kNamed)
    say_(folder_ + "/" + printable(of.file->path) + ": " + fault_text(of.trouble) +
         "; it stays on " + name_of_(host) + ", in " + printable(of.folder) + further(troubles_));
  return false;
}

std::error_code SyncedFiles::put_in_place(std::uint32_t host, const FileBegin& file) {
  UniqueFd parent;
  std::string name;
  if (const auto ec = open_parent(root_.get(), file.path, parent, name)) return ec;
  if (is_superseded(host, file, parent.get(), name)) return {};
  if (::renameat(root_.get(), part_name(host).c_str(), parent.get(), name.c_str()) != 0)
    return last_error();
  if (versions_.size() < limits::kMaxSyncedFiles)
    versions_[file.path] = {host, file.size, file.time_ns};
  return {};
}

// Two hosts write the same name where rank 0 moves, for one. A host that was lost and is back
// brings again what it had, be there a later one or not.
bool SyncedFiles::is_superseded(std::uint32_t host, const FileBegin& file, int parent,
                                const std::string& name) {
  const auto known = versions_.find(file.path);
  std::string before = "this machine";
  std::uint64_t time_ns = 0;
  if (known != versions_.end()) {
    const Version& version = known->second;
    if (version.host == host) return version.size == file.size && version.time_ns == file.time_ns;
    before = name_of_(version.host);
    time_ns = version.time_ns;
  } else {
    // One that was there before the job is of an earlier run.
    struct stat info {};
    if (::fstatat(parent, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
        !S_ISREG(info.st_mode) || nanoseconds(info.st_ctim) < began_ns_)
      return false;
    time_ns = nanoseconds(info.st_mtim);
  }
  if (++clashes_ <= kNamed)
    say_(printable(file.path) + " below --sync-dir was written by " + before + " and by " +
         name_of_(host) + ": the later one stays" + further(clashes_));
  return file.time_ns < time_ns;
}

void SyncedFiles::end(std::uint32_t host, const Host& of, std::uint32_t left) {
  if (left > 0)
    say_(std::to_string(left) + (left == 1 ? " file" : " files") + " below --sync-dir stayed on " +
         name_of_(host) + ", in " + printable(of.folder));
  hosts_.erase(host);
}

void SyncedFiles::forget(std::uint32_t host) {
  const auto known = hosts_.find(host);
  if (known == hosts_.end()) return;
  ::unlinkat(root_.get(), part_name(host).c_str(), 0);
  say_("files below --sync-dir that have not come from " + name_of_(host) + " are there, in " +
       printable(known->second.folder));
  hosts_.erase(known);
}

}  // namespace hvdrun
