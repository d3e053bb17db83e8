// The files below a folder that are ready to be brought elsewhere. Whoever writes them says nothing
// of it: so the folder is looked at again and again, and the kernel is asked whether somebody has a
// file open for writing. Only plain files count, under plain names (common/wire/file_path.h). One
// thread; times are the caller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

// Equal as long as the file is the same one and has not changed.
struct FileStamp {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;        // bytes
  std::uint64_t changed_ns = 0;  // its bytes
  std::uint64_t status_ns = 0;   // its bytes, name or mode; nobody can set it
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(int file);

struct ReadyFile {
  std::string path;  // relative to the folder
  UniqueFd file;
  FileStamp stamp;
  std::uint32_t mode = 0;  // permission bits
};

class FolderScan {
 public:
  // A file that somebody has open is as good as finished when nothing was written to it for so
  // long.
  static constexpr std::chrono::seconds kQuiet{5};

  explicit FolderScan(std::string folder, std::size_t most = limits::kMaxSyncedFiles)
      : folder_(std::move(folder)), most_(most) {}

  // Looks at everything once. Ready is what is as it was at the look before and has not been
  // brought; with `last` it need not have been there before, nor be closed.
  void look(std::chrono::steady_clock::time_point now, bool last = false);
  // One that is ready, by name, until there is none. Of those that cannot be opened it says why.
  std::optional<ReadyFile> next(std::chrono::steady_clock::time_point now);
  // The end of one that next() has given: it is there, or cannot be kept there as it is.
  void brought(const ReadyFile& file);
  void failed(const ReadyFile& file);
  // Files that have not been brought as they were at the last look, and what of the folder has not
  // been looked at. Links, pipes and the like have nothing in them that could be.
  std::uint32_t left() const;
  // New since the last call, lines for the user: what is no plain file, say. One of each kind.
  std::vector<std::string> take_remarks();

 private:
  struct Known {
    FileStamp stamp;
    std::chrono::steady_clock::time_point since;  // it is like this
    std::optional<FileStamp> handled;
    bool has_failed = false;
    bool is_there = false;
  };

  void walk(int folder, const std::string& prefix, std::size_t depth,
            std::chrono::steady_clock::time_point now, bool last);
  void see(const std::string& path, const FileStamp& stamp,
           std::chrono::steady_clock::time_point now, bool last);
  void remark(const std::string& kind, const std::string& path);
  // Something with bytes in it.
  void skip(const std::string& kind, const std::string& path);

  std::string folder_;
  std::size_t most_;  // files and folders that are looked at
  std::size_t seen_ = 0;
  std::uint32_t skipped_ = 0;
  bool last_ = false;
  std::map<std::string, Known> files_;
  std::deque<std::string> ready_;
  std::set<std::string> told_;
  std::vector<std::string> remarks_;
};

}  // namespace hvdrun
