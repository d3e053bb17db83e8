#include "cli/output/synced_files.h"

#include <algorithm>
#include <cerrno>
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

std::error_code last_error() { return {errno, std::system_category()}; }

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

SyncedFiles::SyncedFiles(std::string folder, const std::string& where)
    : folder_(std::move(folder)) {
  std::error_code ec;
  std::filesystem::create_directories(folder_, ec);
  if (!ec) root_.reset(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!ec && !root_) ec = last_error();
  if (!ec && ::access(folder_.c_str(), W_OK | X_OK) != 0) ec = last_error();
  if (ec)
    throw UsageError(where + ": " + printable(folder_) + ": " + fault_text(ec) +
                     "; name a folder that can be written to");
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
  return std::string(kUnderWayPrefix) + std::to_string(::getpid()) + "-" + std::to_string(host);
}

void SyncedFiles::begin(std::uint32_t host, Host& of, FileBegin message) {
  of.file = std::move(message);
  of.size = 0;
  of.trouble.clear();
  const std::string part = part_name(host);
  ::unlinkat(root_.get(), part.c_str(), 0);
  constexpr mode_t kOwn = 0600;
  of.part.reset(::openat(root_.get(), part.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwn));
  if (!of.part) of.trouble = last_error();
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

bool SyncedFiles::keep(std::uint32_t host, Host& of) {
  if (!of.trouble) {
    constexpr std::uint64_t kNanoseconds = 1'000'000'000;
    const timespec time{static_cast<time_t>(of.file->time_ns / kNanoseconds),
                        static_cast<long>(of.file->time_ns % kNanoseconds)};
    const timespec times[] = {time, time};
    ::futimens(of.part.get(), times);
    ::fchmod(of.part.get(), of.file->mode & kEverybody);
    of.trouble = put_in_place(host, *of.file);
  }
  if (!of.trouble) {
    note_writer(host, of.file->path);
    return true;
  }
  if (++troubles_ <= kNamed)
    say_(folder_ + "/" + printable(of.file->path) + ": " + fault_text(of.trouble) +
         "; it stays on " + name_of_(host) + ", in " + printable(of.folder) + further(troubles_));
  return false;
}

std::error_code SyncedFiles::put_in_place(std::uint32_t host, const FileBegin& file) {
  UniqueFd parent;
  std::string name;
  if (const auto ec = open_parent(root_.get(), file.path, parent, name)) return ec;
  const bool is_there =
      ::renameat(root_.get(), part_name(host).c_str(), parent.get(), name.c_str()) == 0;
  return is_there ? std::error_code() : last_error();
}

// Such as a checkpoint of rank 0, which is on another host now. Where it is no such thing the user
// should know.
void SyncedFiles::note_writer(std::uint32_t host, const std::string& path) {
  if (writers_.size() == limits::kMaxSyncedFiles) return;
  const auto [at, is_new] = writers_.try_emplace(path, host);
  const std::uint32_t before = std::exchange(at->second, host);
  if (is_new || before == host || ++clashes_ > kNamed) return;
  say_(printable(path) + " below --sync-dir came from " + name_of_(before) + ", and now from " +
       name_of_(host) + ": the later one stays" + further(clashes_));
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
  say_("what " + name_of_(host) + " has not brought of its files below --sync-dir is there, in " +
       printable(known->second.folder));
  hosts_.erase(known);
}

}  // namespace hvdrun
